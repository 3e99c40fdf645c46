// The steps of the HTTP clients in this directory, for both SDKs. They use all components of the servers in `offer.mjs`, and print a
// line of JSON for each step.

import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE = 30_000;

/** Runs the steps in order. The first one that fails ends the process. */
export async function hold(steps) {
    for (const [step, run] of steps) {
        try {
            tell({ step, ok: true, value: await soon(run()) });
        } catch (error) {
            tell({ step, ok: false, error: `${error?.stack ?? error}` });
            process.exit(1);
        }
    }
    process.exit(0);
}

function tell(line) {
    console.log(JSON.stringify(line, (_, value) => value ?? null));
}

async function soon(happens) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no result within ${PATIENCE} ms`)), PATIENCE);
    });
    return Promise.race([happens, late]).finally(() => clearTimeout(timer));
}

export async function eventually(what, holds) {
    const end = Date.now() + PATIENCE;
    while (!(await holds())) {
        if (Date.now() > end) throw new Error(`timed out waiting for ${what}`);
        await sleep(5);
    }
}

/** Records notifications and answers the server's requests. */
export class Heard {
    logs = [];
    changes = 0;
    questions = [];

    /** Answers an elicitation with the name Ann. */
    elicit = async ({ params }) => {
        this.questions.push(params.message);
        return { action: 'accept', content: { name: 'Ann' } };
    };

    /** Answers a sampling request with the question and `Paris.` */
    sample = async ({ params }) => {
        const { content } = params.messages[0];
        const first = Array.isArray(content) ? content[0] : content;
        return { model: 'parrot', role: 'assistant', content: { type: 'text', text: `${first.text} Paris.` } };
    };

    log = ({ params }) => this.logs.push({ level: params.level, data: params.data });
    changed = () => (this.changes += 1);
}

export const capabilities = { elicitation: { form: {} }, sampling: {} };

/**
 * The steps that every client takes, in every revision.
 *
 * `call(name, args, options)` calls a tool; options are `signal`, `onprogress` and `_meta`.
 */
export function steps({ client, call, heard, logLevel }) {
    const text = async (name, args, options) => textOf(await call(name, args, options));
    return [
        ['tools', async () => (await client.listTools()).tools.map(({ name }) => name).sort()],
        ['call', () => text('add', { a: 1, b: 2 })],
        ['fail', async () => isError(await call('fail', {}))],
        ['unknown', () => outcome(call('no-such-tool', {}))],
        ['progress', () => counted(text, 5)],
        ['elicit', () => text('greet', {})],
        ['questions', async () => heard.questions],
        ['sample', () => text('think', { question: 'The capital?' })],
        ['log', () => logged(text, heard, logLevel)],
        ['resources', async () => (await client.listResources()).resources.map(({ uri }) => uri).sort()],
        ['read', async () => (await client.readResource({ uri: 'memo://hello' })).contents[0].text],
        ['unread', () => outcome(client.readResource({ uri: 'memo://nowhere' }))],
        ['prompts', async () => (await client.listPrompts()).prompts.map(({ name }) => name)],
        ['prompt', async () => (await client.getPrompt({ name: 'review', arguments: { code: '1 + 1' } })).messages[0].content.text],
        ['cancel', () => cancelled(call, text)],
        ['several', () => several(text)]
    ];
}

/** Calls `count` and returns the progress reports and the result. */
export async function counted(text, n) {
    const progress = [];
    const answer = await text('count', { n }, { onprogress: (report) => progress.push(report.progress) });
    return { progress, answer };
}

async function logged(text, heard, logLevel) {
    const options = await logLevel('info');
    await text('log', { text: 'quiet', level: 'debug' }, options);
    const answer = await text('log', { text: 'loud', level: 'warning' }, options);
    await eventually('the log message', () => heard.logs.length > 0);
    return { answer, logs: heard.logs };
}

/** Cancels a call after its first progress report, and waits until it has ended on the server. */
async function cancelled(call, text) {
    const before = await text('ended', {});
    const giveUp = new AbortController();
    const options = { signal: giveUp.signal, onprogress: () => giveUp.abort('enough') };
    const answer = await call('wait', {}, options).then(
        () => 'answered',
        () => 'given up'
    );
    await eventually('the end of the call', async () => (await text('ended', {})) !== before);
    return answer;
}

/** Makes concurrent calls of `add` and `count`. */
async function several(text) {
    const calls = Array.from({ length: 20 }, (_, i) => text('add', { a: i, b: 1 }));
    const counts = Array.from({ length: 3 }, () => counted(text, 20));
    const sums = await Promise.all(calls);
    const all = (await Promise.all(counts)).every(({ progress }) => progress.every((step, i) => step === i + 1));
    return { sums: sums.map(Number), counts: all };
}

/** Adds a tool with `grow`, waits for the notification, and checks that the tool is listed. */
export async function changed(client, call, heard) {
    const before = heard.changes;
    const grown = textOf(await call('grow', {}));
    await eventually('the notification of the change', () => heard.changes > before);
    const { tools } = await client.listTools(undefined, { cacheMode: 'refresh' });
    return tools.some(({ name }) => name === grown);
}

/**
 * Delivers one message at a time. Both SDKs lose the last progress reports of a call if they arrive in the same chunk as its
 * response, which can happen over HTTP+SSE.
 */
export function oneByOne(transport) {
    const { onmessage } = transport;
    let before = Promise.resolve();
    transport.onmessage = (message, extra) => {
        before = before.then(() => new Promise(setImmediate)).then(() => onmessage(message, extra));
    };
}

/**
 * Returns a `fetch` that fails once in the middle of the response stream of `count`, after this number of events.
 */
export function breaking(pieces) {
    const state = { armed: false, broken: 0, resumed: 0 };
    const fetch = async (url, init) => {
        if (init?.headers && new Headers(init.headers).has('last-event-id')) state.resumed += 1;
        const response = await globalThis.fetch(url, init);
        const counts = typeof init?.body === 'string' && init.body.includes('"count"');
        if (!state.armed || !counts || !response.body) return response;
        state.armed = false;
        state.broken += 1;
        const { status, headers } = response;
        return new Response(response.body.pipeThrough(breakAfter(pieces)), { status, headers });
    };
    return { fetch, state };
}

function breakAfter(events) {
    let seen = '';
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();
    return new TransformStream({
        transform(chunk, controller) {
            const piece = decoder.decode(chunk, { stream: true });
            const ends = [...(seen + piece).matchAll(/\n\n/g)].map(({ index }) => index + 2);
            if (ends.length < events) {
                seen += piece;
                return controller.enqueue(chunk);
            }
            controller.enqueue(encoder.encode(piece.slice(0, Math.max(ends[events - 1] - seen.length, 0))));
            // The client reads the enqueued events before the error.
            setImmediate(() => controller.error(new TypeError('the network broke')));
        }
    });
}

export function textOf(result) {
    if (result.isError) throw new Error(`the tool failed: ${JSON.stringify(result.content)}`);
    return result.content[0].text;
}

function isError(result) {
    return { isError: result.isError === true, text: result.content[0].text };
}

/** Returns the outcome of a call that must fail: the code of the error, or an error result. */
async function outcome(happens) {
    try {
        const result = await happens;
        return { isError: result.isError === true };
    } catch (error) {
        if (typeof error?.code !== 'number') throw error;
        return { code: error.code };
    }
}
