// A server of the handshake era, on the official TypeScript SDK v1. Over HTTP it offers both transports of that era:
// Streamable HTTP with sessions at /mcp, and HTTP+SSE at /sse.

import { randomUUID } from 'node:crypto';

import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import * as http from './http.mjs';
import * as memo from './memo.mjs';

const counter = { value: 0 };

function build() {
    const server = new McpServer({ name: 'node-handshake', version: '1.0.0' }, memo.serverOptions({ subscribe: true }));
    const subscribed = new Set();

    memo.offerTools(server);
    memo.offerResources(server, ResourceTemplate, counter);

    const { code, style } = memo.reviewArguments();
    const completed = completable(style.optional().describe(style.description), memo.completeStyle);
    memo.offerPrompts(server, { code, style: completed });

    server.registerTool(
        'slow',
        { description: 'Takes three steps and reports each', inputSchema: memo.slowInput },
        async (args, { _meta, signal, sendNotification }) => memo.work(args, _meta?.progressToken, signal, sendNotification)
    );

    server.registerTool('log', { description: 'Logs a text', inputSchema: memo.logInput }, async ({ text, level }, { sessionId }) => {
        await server.sendLoggingMessage({ level, logger: 'peer', data: text }, sessionId);
        return memo.text('logged');
    });

    server.registerTool('greet', { description: 'Asks for a name and greets it' }, async () =>
        memo.greeting(await server.server.elicitInput({ message: 'What is your name?', requestedSchema: memo.nameSchema }))
    );

    server.registerTool(
        'think',
        { description: "Asks the client's model", inputSchema: memo.thinkInput },
        async ({ question }, { requestId }) =>
            // Over HTTP, this request is sent on the response stream of the call, and the others on the standalone stream.
            memo.thought(await server.server.createMessage(memo.sampling(question), { relatedRequestId: requestId }))
    );

    server.registerTool('roots', { description: "Lists the client's roots" }, async () => {
        const { roots } = await server.server.listRoots();
        return memo.rootList(roots);
    });

    server.registerTool('touch', { description: 'Changes memo://counter and says that the tools changed' }, async () => {
        counter.value += 1;
        if (subscribed.has('memo://counter')) {
            await server.server.sendResourceUpdated({ uri: 'memo://counter' });
        }
        server.sendToolListChanged();
        return memo.text(`${counter.value}`);
    });

    // The SDK declares subscriptions, but the server has to store them.
    server.server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => {
        subscribed.add(params.uri);
        return {};
    });
    server.server.setRequestHandler(UnsubscribeRequestSchema, async ({ params }) => {
        subscribed.delete(params.uri);
        return {};
    });
    return server;
}

/** The transport of each session, by session id. */
const sessions = new Map();

async function streamable(req, res) {
    const id = req.headers['mcp-session-id'];
    if (id !== undefined && !sessions.has(id)) return http.refuse(res, 404);
    let transport = sessions.get(id);
    if (!transport) {
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (id) => sessions.set(id, transport),
            onsessionclosed: (id) => sessions.delete(id)
        });
        await build().connect(transport);
    }
    await transport.handleRequest(req, res);
}

async function serveHttp(req, res, url) {
    if (url.pathname === '/mcp') return streamable(req, res);
    // Removes all sessions, as a restart would.
    if (url.pathname === '/forget') return sessions.clear(), http.refuse(res, 204);
    if (url.pathname === '/sse' && req.method === 'GET') {
        const transport = new SSEServerTransport('/messages', res);
        sessions.set(transport.sessionId, transport);
        res.on('close', () => sessions.delete(transport.sessionId));
        return build().connect(transport);
    }
    const transport = sessions.get(url.searchParams.get('sessionId'));
    if (url.pathname !== '/messages' || !transport) return http.refuse(res, 404);
    await transport.handlePostMessage(req, res);
}

if (http.wanted) {
    http.listen(serveHttp);
} else {
    await build().connect(new StdioServerTransport());
}
