// A server of the stateless era over HTTP, on the official TypeScript SDK v2.
//
// http-stateless.mjs [port]

import { createServer } from 'node:http';

import { createMcpHandler, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

import { serveFetch } from './fetch-server.mjs';
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

listen(createServer(serveFetch((request) => handler.fetch(request))));
