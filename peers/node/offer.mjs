// Components of the servers for HTTP clients. `memo.mjs` has helpers and components without requests to the client.

import { once } from 'node:events';
import { z } from 'zod';

import * as memo from './memo.mjs';

/** State that all sessions of a server share. */
export const shared = { grown: [], ended: 0, servers: new Set() };

export const greetTool = { description: 'Asks for a name and greets it' };
export const thinkTool = { description: "Asks the client's model", inputSchema: memo.thinkInput };

/**
 * Registers the tools without requests to the client. `speak` takes the context of a handler and returns functions for progress
 * and log messages, and the abort signal of the call. `changed` notifies clients that the list of tools changed.
 */
export function offer(server, speak, changed) {
    const tool = (name, description, shape, run) => server.registerTool(name, { description, inputSchema: z.object(shape) }, run);

    tool('add', 'Adds two numbers', { a: z.number(), b: z.number() }, async ({ a, b }) => memo.text(`${a + b}`));
    tool('fail', 'Fails, always', {}, async () => ({ ...memo.text('it failed, as asked'), isError: true }));
    tool('count', 'Counts aloud', { n: z.number().int() }, async ({ n }, extra) => {
        const { progress } = speak(extra);
        for (let step = 1; step <= n; step++) await progress(step, n);
        return memo.text(`counted to ${n}`);
    });
    tool('wait', 'Waits until it is cancelled, after progress', {}, async (_, extra) => {
        const { progress, signal } = speak(extra);
        await progress(1);
        if (!signal.aborted) await once(signal, 'abort');
        shared.ended += 1;
        return memo.text('cancelled');
    });
    tool('ended', 'How many waits have ended', {}, async () => memo.text(`${shared.ended}`));
    tool('log', 'Logs a text', { text: z.string(), level: z.string() }, async ({ text, level }, extra) => {
        await speak(extra).log(level, text);
        return memo.text('logged');
    });
    tool('grow', 'Adds a tool', {}, async () => {
        const name = `grown-${shared.grown.length + 1}`;
        shared.grown.push(name);
        for (const other of shared.servers) offerGrown(other, name);
        changed();
        return memo.text(name);
    });
    for (const name of shared.grown) offerGrown(server, name);
    server.registerResource('hello', 'memo://hello', { mimeType: 'text/plain' }, async (uri) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'Hello from a peer.' }]
    }));
}

function offerGrown(server, name) {
    server.registerTool(name, { description: 'Was added by grow' }, async () => memo.text(name));
}

/** Listens on the port in the arguments, or else a free one, and prints the URL. */
export function listen(http) {
    http.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}`));
}
