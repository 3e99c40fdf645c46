// A server of the handshake era, on the official TypeScript SDK v1.

import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import * as memo from './memo.mjs';

const server = new McpServer({ name: 'node-handshake', version: '1.0.0' }, memo.serverOptions({ subscribe: true }));
const counter = { value: 0 };
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

server.registerTool('log', { description: 'Logs a text', inputSchema: memo.logInput }, async ({ text, level }) => {
    await server.sendLoggingMessage({ level, logger: 'peer', data: text });
    return memo.text('logged');
});

server.registerTool('greet', { description: 'Asks for a name and greets it' }, async () =>
    memo.greeting(await server.server.elicitInput({ message: 'What is your name?', requestedSchema: memo.nameSchema }))
);

server.registerTool(
    'think',
    { description: "Asks the client's model", inputSchema: memo.thinkInput },
    async ({ question }) => memo.thought(await server.server.createMessage(memo.sampling(question)))
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

// The SDK declares subscriptions but leaves keeping them to the server.
server.server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => {
    subscribed.add(params.uri);
    return {};
});
server.server.setRequestHandler(UnsubscribeRequestSchema, async ({ params }) => {
    subscribed.delete(params.uri);
    return {};
});

await server.connect(new StdioServerTransport());
