// A server of the handshake era over HTTP, on the official TypeScript SDK v1: Streamable HTTP with sessions on /mcp,
// HTTP+SSE on /sse and /messages.
//
// http-handshake.mjs [port]

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

import * as memo from './memo.mjs';
import { greetTool, listen, offer, shared, thinkTool } from './offer.mjs';

function build() {
    const server = new McpServer({ name: 'node-http-handshake', version: '1.0.0' }, { capabilities: { logging: {} } });
    offer(server, speak(server), () => {});
    server.registerTool('greet', greetTool, async (extra) => {
        const params = { mode: 'form', message: 'What is your name?', requestedSchema: memo.nameSchema };
        return memo.greeting(await server.server.elicitInput(params, { relatedRequestId: extra.requestId }));
    });
    server.registerTool('think', thinkTool, async ({ question }, extra) =>
        memo.thought(await server.server.createMessage(memo.sampling(question), { relatedRequestId: extra.requestId }))
    );
    memo.offerPrompts(server, { code: memo.reviewArguments().code, style: memo.reviewArguments().style.optional() });
    shared.servers.add(server);
    server.server.onclose = () => shared.servers.delete(server);
    return server;
}

const speak = (server) => (extra) => ({
    signal: extra.signal,
    progress: async (progress, total) => {
        const progressToken = extra._meta?.progressToken;
        if (progressToken === undefined) return;
        await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total } });
    },
    log: (level, data) => server.sendLoggingMessage({ level, data }, extra.sessionId)
});

const sessions = new Map();

async function streamable(req, res) {
    const id = req.headers['mcp-session-id'];
    if (id !== undefined) {
        const known = sessions.get(id);
        return known ? known.handleRequest(req, res) : res.writeHead(404).end();
    }
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new InMemoryEventStore(),
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id)
    });
    await build().connect(transport);
    await transport.handleRequest(req, res);
}

async function sse(res) {
    const transport = new SSEServerTransport('/messages', res);
    sessions.set(transport.sessionId, transport);
    await build().connect(transport);
}

listen(
    createServer((req, res) => {
        const { pathname, searchParams } = new URL(req.url, 'http://localhost');
        if (pathname === '/sse') return sse(res);
        if (pathname === '/messages') return sessions.get(searchParams.get('sessionId')).handlePostMessage(req, res);
        return streamable(req, res);
    })
);
