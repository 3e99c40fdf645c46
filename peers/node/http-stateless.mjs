// A server of the stateless era over HTTP, on the official TypeScript SDK v2.
//
// http-stateless.mjs [port]

import { createServer } from 'node:http';
import { Readable } from 'node:stream';

import { createMcpHandler, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

import * as memo from './memo.mjs';
import { greetTool, listen, offer, thinkTool } from './offer.mjs';

function build() {
    const server = new McpServer({ name: 'node-http-stateless', version: '1.0.0' }, memo.serverOptions({ subscribe: true }));
    offer(server, speak, () => handler.notify.toolsChanged());
    offerAskingTools(server);
    const { code, style } = memo.reviewArguments();
    memo.offerPrompts(server, z.object({ code, style: style.optional() }));
    return server;
}

function speak({ mcpReq }) {
    return {
        signal: mcpReq.signal,
        progress: async (progress, total) => {
            const progressToken = mcpReq._meta?.progressToken;
            if (progressToken === undefined) return;
            await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
        },
        log: (level, data) => mcpReq.log(level, data)
    };
}

function offerAskingTools(server) {
    server.registerTool('greet', greetTool, async ({ mcpReq }) => {
        const name = inputResponse(mcpReq.inputResponses, 'name');
        if (name.kind === 'elicit') return memo.greeting(name);
        const request = { message: 'What is your name?', requestedSchema: memo.nameSchema };
        return inputRequired({ inputRequests: { name: inputRequired.elicit(request) } });
    });
    server.registerTool('think', thinkTool, async ({ question }, { mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, 'answer');
        if (answer.kind === 'sampling') return memo.thought(answer.result);
        return inputRequired({ inputRequests: { answer: inputRequired.createMessage(memo.sampling(question)) } });
    });
}

const handler = createMcpHandler(build, { onerror: (error) => console.error(error) });

/** What `@modelcontextprotocol/node` does for frameworks, as far as it is needed here. */
async function answer(req, res) {
    const gone = new AbortController();
    res.on('close', () => gone.abort());
    const bare = req.method === 'GET' || req.method === 'DELETE';
    const request = new Request(`http://${req.headers.host}${req.url}`, {
        method: req.method,
        headers: req.headers,
        body: bare ? undefined : Readable.toWeb(req),
        duplex: 'half',
        signal: gone.signal
    });
    const response = await handler.fetch(request);
    res.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
    if (response.body) Readable.fromWeb(response.body).on('error', () => res.destroy()).pipe(res);
    else res.end();
}

listen(createServer((req, res) => answer(req, res).catch(() => res.destroy())));
