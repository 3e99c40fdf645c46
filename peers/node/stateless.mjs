// A server of the stateless era, on the official TypeScript SDK v2. The SDK also answers clients of the handshake era;
// started with --stateless-only, it refuses them.

import {
    completable,
    createMcpHandler,
    inputRequired,
    inputResponse,
    McpServer,
    ResourceTemplate
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

import * as http from './http.mjs';
import * as memo from './memo.mjs';

const counter = { value: 0 };

// The SDK creates a server when it knows the era of the client. It supports subscriptions only in the stateless era.
function build({ era }) {
    const subscribe = era === 'modern';
    const server = new McpServer({ name: 'node-stateless', version: '1.0.0' }, memo.serverOptions({ subscribe }));

    memo.offerTools(server);
    memo.offerResources(server, ResourceTemplate, counter);
    offerPrompts(server);
    offerSpeakingTools(server, subscribe);
    offerAskingTools(server);
    return server;
}

function offerPrompts(server) {
    const { code, style } = memo.reviewArguments();
    memo.offerPrompts(server, z.object({ code, style: completable(style, memo.completeStyle).optional() }));
}

function offerSpeakingTools(server, subscribe) {
    server.registerTool(
        'slow',
        { description: 'Takes three steps and reports each', inputSchema: memo.slowInput },
        async (args, { mcpReq }) => memo.work(args, mcpReq._meta?.progressToken, mcpReq.signal, mcpReq.notify)
    );
    server.registerTool(
        'log',
        { description: 'Logs a text', inputSchema: memo.logInput },
        async ({ text, level }, { mcpReq }) => {
            await mcpReq.log(level, text, 'peer');
            return memo.text('logged');
        }
    );
    const description = 'Changes memo://counter and says that the tools changed';
    server.registerTool('touch', { description }, async () => {
        counter.value += 1;
        if (handler) {
            handler.notify.resourceUpdated('memo://counter');
            handler.notify.toolsChanged();
            return memo.text(`${counter.value}`);
        }
        if (subscribe) await server.server.sendResourceUpdated({ uri: 'memo://counter' });
        server.sendToolListChanged();
        return memo.text(`${counter.value}`);
    });
}

/** Registers tools that first respond with `input_required`, and are called again with the input. */
function offerAskingTools(server) {
    server.registerTool('greet', { description: 'Asks for a name and greets it' }, async ({ mcpReq }) => {
        const name = inputResponse(mcpReq.inputResponses, 'name');
        if (name.kind === 'elicit') return memo.greeting(name);
        const request = { message: 'What is your name?', requestedSchema: memo.nameSchema };
        return inputRequired({ inputRequests: { name: inputRequired.elicit(request) } });
    });
    server.registerTool(
        'think',
        { description: "Asks the client's model", inputSchema: memo.thinkInput },
        async ({ question }, { mcpReq }) => {
            const answer = inputResponse(mcpReq.inputResponses, 'answer');
            if (answer.kind === 'sampling') return memo.thought(answer.result);
            return inputRequired({ inputRequests: { answer: inputRequired.createMessage(memo.sampling(question)) } });
        }
    );
    server.registerTool('roots', { description: "Lists the client's roots" }, async ({ mcpReq }) => {
        const roots = inputResponse(mcpReq.inputResponses, 'roots');
        if (roots.kind === 'roots') return memo.rootList(roots.roots);
        return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
    });
}

const strict = process.argv.includes('--stateless-only');
const onerror = console.error;

// Over HTTP each request has a server of its own, so notifications of changes are sent by the handler that they share.
const handler = http.wanted ? createMcpHandler(build, { legacy: strict ? 'reject' : 'stateless', onerror }) : undefined;
if (handler) {
    http.listen((req, res, url) => http.answer(handler.fetch, req, res, url));
} else {
    serveStdio(build, { legacy: strict ? 'reject' : 'serve', onerror });
}
