// A client on the official TypeScript SDK v2 that fills in forms, over HTTP or standard input and output.
//
// client-form.mjs <revision> <url>
// client-form.mjs <revision> <program> [arguments...]
//
// It calls the tool `sign_up` with a complete answer and with one that leaves out the optional field `age`, and prints a line
// of JSON: the revision, the form schemas as decoded by the SDK, and the texts of the results.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [revision, target, ...args] = process.argv.slice(2);
const modern = revision === '2026-07-28';

const client = new Client(
    { name: 'node-client-form', version: '1.0.0' },
    {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: modern ? { pin: revision } : 'legacy' },
        ...(!modern && { supportedProtocolVersions: [revision] })
    }
);
const forms = [];
client.setRequestHandler('elicitation/create', async ({ params }) => {
    const content = { name: 'Ann', plan: 'team', news: true, ...(forms.length === 0 && { age: 42 }) };
    forms.push(params.requestedSchema);
    return { action: 'accept', content };
});

await client.connect(
    target.startsWith('http://')
        ? new StreamableHTTPClientTransport(new URL(target))
        : new StdioClientTransport({ command: target, args })
);
const texts = [];
for (let call = 0; call < 2; call++) {
    const { content } = await client.callTool({ name: 'sign_up', arguments: {} });
    texts.push(...content.map(({ text }) => text));
}
console.log(JSON.stringify({ version: client.getNegotiatedProtocolVersion(), forms, texts }));
await client.close();
