// A client of the handshake era, on the official TypeScript SDK v1.
//
// client-handshake.mjs <url> [streamable|sse]

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    LoggingMessageNotificationSchema,
    ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';

import * as conversation from './conversation.mjs';

const [url, mode = 'streamable'] = process.argv.slice(2);
const streamable = mode === 'streamable';

const client = new Client({ name: 'node-client-handshake', version: '1.0.0' }, { capabilities: conversation.capabilities });
const heard = new conversation.Heard();
client.setRequestHandler(ElicitRequestSchema, heard.elicit);
client.setRequestHandler(CreateMessageRequestSchema, heard.sample);
client.setNotificationHandler(LoggingMessageNotificationSchema, heard.log);
client.setNotificationHandler(ToolListChangedNotificationSchema, heard.changed);

const { fetch, state } = conversation.breaking(5);
const reconnectionOptions = {
    initialReconnectionDelay: 10,
    maxReconnectionDelay: 100,
    reconnectionDelayGrowFactor: 1.5,
    maxRetries: 5
};
const transport = streamable
    ? new StreamableHTTPClientTransport(new URL(url), { fetch, reconnectionOptions })
    : new SSEClientTransport(new URL(url));

function call(name, args, { _meta, ...options } = {}) {
    return client.callTool({ name, arguments: args, _meta }, undefined, options);
}

async function logLevel(level) {
    await client.setLoggingLevel(level);
}

async function text(name, args, options) {
    return conversation.textOf(await call(name, args, options));
}

async function resumed() {
    state.armed = true;
    const counted = await conversation.counted(text, 20);
    return { ...counted, broken: state.broken, resumed: state.resumed > 0 };
}

async function terminated() {
    const before = transport.sessionId;
    await transport.terminateSession();
    return { had: typeof before === 'string', has: transport.sessionId !== undefined };
}

async function connected() {
    await client.connect(transport);
    if (!streamable) conversation.oneByOne(transport);
    return { server: client.getServerVersion().name, version: transport.protocolVersion };
}

await conversation.hold([
    ['connect', connected],
    ...conversation.steps({ client, call, heard, logLevel }),
    ['change', () => conversation.changed(client, call, heard)],
    ['ping', () => client.ping()],
    ...(streamable
        ? [
              ['resume', resumed],
              ['terminate', terminated]
          ]
        : []),
    ['close', () => client.close()]
]);
