// A client of the stateless era, on the official TypeScript SDK v2, which also supports servers of the handshake era.
//
// client-stateless.mjs <url> [auto|2026-07-28|legacy|sse]

import { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import * as conversation from './conversation.mjs';

const [url, mode = 'auto'] = process.argv.slice(2);
const negotiation = { auto: 'auto', legacy: 'legacy', sse: 'legacy' }[mode] ?? { pin: mode };

const client = new Client(
    { name: 'node-client-stateless', version: '1.0.0' },
    { capabilities: conversation.capabilities, versionNegotiation: { mode: negotiation } }
);
const heard = new conversation.Heard();
client.setRequestHandler('elicitation/create', heard.elicit);
client.setRequestHandler('sampling/createMessage', heard.sample);
client.setNotificationHandler('notifications/message', heard.log);
client.setNotificationHandler('notifications/tools/list_changed', heard.changed);

const { fetch, state } = conversation.breaking(5);
const reconnectionOptions = {
    initialReconnectionDelay: 10,
    maxReconnectionDelay: 100,
    reconnectionDelayGrowFactor: 1.5,
    maxRetries: 5
};
const transport =
    mode === 'sse'
        ? new SSEClientTransport(new URL(url))
        : new StreamableHTTPClientTransport(new URL(url), { fetch, reconnectionOptions });
const modern = () => client.getProtocolEra() === 'modern';

function call(name, args, { _meta, ...options } = {}) {
    return client.callTool({ name, arguments: args, ...(_meta && { _meta }) }, options);
}

async function text(name, args, options) {
    return conversation.textOf(await call(name, args, options));
}

async function logLevel(level) {
    if (modern()) return { _meta: { [LOG_LEVEL_META_KEY]: level } };
    await client.setLoggingLevel(level);
}

async function connected() {
    await client.connect(transport);
    if (mode === 'sse') conversation.oneByOne(transport);
    return {
        server: client.getServerVersion().name,
        version: client.getNegotiatedProtocolVersion(),
        session: transport.sessionId !== undefined
    };
}

async function changed() {
    if (!modern()) return conversation.changed(client, call, heard);
    const subscription = await client.listen({ toolsListChanged: true });
    const heardOf = await conversation.changed(client, call, heard);
    await subscription.close();
    return heardOf && (await subscription.closed) === 'local';
}

/** Breaks a stream and resumes it. The newest revision has no resumption. */
async function resumed() {
    if (modern()) return 'not in this revision';
    state.armed = true;
    const counted = await conversation.counted(text, 20);
    return { ...counted, broken: state.broken, resumed: state.resumed > 0 };
}

async function ended() {
    if (!modern() && mode !== 'sse') await transport.terminateSession();
    await client.close();
}

await conversation.hold([
    ['connect', connected],
    ...conversation.steps({ client, call, heard, logLevel }),
    ['change', changed],
    ['ping', async () => (modern() ? client.discover().then(() => ({})) : client.ping())],
    ...(mode === 'sse' ? [] : [['resume', resumed]]),
    ['close', ended]
]);
