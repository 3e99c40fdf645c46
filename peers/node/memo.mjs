// Components that the servers of this directory share: those that send no requests to the client. Both SDKs have the same functions
// to register tools, resources and prompts, so each server passes in the classes of its own SDK.

import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const STYLES = ['brief', 'bold', 'broad'];
const NOTES = ['one', 'two', 'three'];
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** Returns the options for the server constructors of both SDKs. */
export function serverOptions({ subscribe }) {
    return { capabilities: { logging: {}, resources: { subscribe } }, instructions: 'A peer for the tests of Turms.' };
}

export const thinkInput = z.object({ question: z.string().describe('what to ask the model') });

export const slowInput = z.object({
    pause: z.number().int().min(0).default(10).describe('milliseconds before each step')
});

export const logInput = z.object({
    text: z.string().describe('what to log'),
    level: z.enum(LEVELS).default('info').describe('how serious it is')
});

export const nameSchema = {
    type: 'object',
    properties: { name: { type: 'string', title: 'Name', description: 'whom to greet' } },
    required: ['name']
};

/** Returns the params of the sampling request of `think`. */
export function sampling(question) {
    return { messages: [{ role: 'user', content: { type: 'text', text: question } }], maxTokens: 100 };
}

/** Returns a tool result with one text. */
export function text(text) {
    return { content: [{ type: 'text', text }] };
}

/** Returns a structured tool result, with the same data as text for clients without support for structured results. */
function structured(structuredContent) {
    return { ...text(JSON.stringify(structuredContent)), structuredContent };
}

/** Returns the result of `greet` for the outcome of its elicitation. */
export function greeting({ action, content }) {
    return text(action === 'accept' ? `Hello, ${content.name}!` : `Nobody to greet: ${action}.`);
}

/** Returns the result of `think` for a sampling result. */
export function thought({ model, content }) {
    const first = Array.isArray(content) ? content[0] : content;
    return text(`${model}: ${first.text}`);
}

/** Returns the result of `roots`: one root per line. */
export function rootList(roots) {
    return text(roots.map(({ uri, name }) => (name ? `${uri} ${name}` : uri)).join('\n'));
}

/** Runs `slow`: three steps, each with a pause and then a progress report. */
export async function work({ pause }, progressToken, signal, notify) {
    const total = 3;
    for (let progress = 1; progress <= total; progress++) {
        await sleep(pause, undefined, { signal });
        if (progressToken !== undefined) {
            const message = `step ${progress} of ${total}`;
            await notify({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
        }
    }
    return text('done');
}

export function offerTools(server) {
    server.registerTool(
        'add',
        {
            description: 'Adds two numbers',
            inputSchema: z.object({ a: z.number(), b: z.number() }),
            outputSchema: z.object({ sum: z.number() })
        },
        async ({ a, b }) => structured({ sum: a + b })
    );
    server.registerTool(
        'echo',
        { description: 'Says what it was told', inputSchema: z.object({ text: z.string() }) },
        async (args) => text(args.text)
    );
    server.registerTool('fail', { description: 'Fails, always' }, async () => {
        throw new Error('it failed, as asked');
    });
}

export function offerResources(server, ResourceTemplate, counter) {
    offerText(server, 'hello', 'A text', () => 'Hello from a peer.');

    const binary = { mimeType: 'application/octet-stream' };
    server.registerResource('blob', 'memo://blob', { description: 'Five bytes', ...binary }, async (uri) => {
        const blob = Buffer.from([0, 1, 2, 254, 255]).toString('base64');
        return { contents: [{ uri: uri.href, blob, ...binary }] };
    });

    offerText(server, 'counter', 'How often touch was called', () => `${counter.value}`);

    const complete = { id: (start) => NOTES.filter((id) => id.startsWith(start)) };
    const template = new ResourceTemplate('memo://note/{id}', { list: undefined, complete });
    server.registerResource('note', template, { description: 'A note', ...plain }, async (uri, { id }) =>
        textContents(uri, `This is note ${id}.`)
    );
}

function offerText(server, name, description, read) {
    const uri = `memo://${name}`;
    server.registerResource(name, uri, { description, ...plain }, async (uri) => textContents(uri, read()));
}

const plain = { mimeType: 'text/plain' };

function textContents(uri, text) {
    return { contents: [{ uri: uri.href, text, ...plain }] };
}

/** Registers the prompt. Its argument schema is passed in, because the two SDKs require different forms. */
export function offerPrompts(server, argsSchema) {
    server.registerPrompt('review', { description: 'Asks for a review', argsSchema }, async (args) => {
        const { code, style = 'brief' } = args;
        const text = `Write a ${style} review of this code:\n${code}`;
        return { messages: [{ role: 'user', content: { type: 'text', text } }] };
    });
}

/** Creates the arguments of the prompt. They are new each time, because completion in an SDK modifies them. */
export function reviewArguments() {
    return { code: z.string().describe('what to review'), style: z.string().describe('how to write') };
}

export function completeStyle(start = '') {
    return STYLES.filter((style) => style.startsWith(start));
}
