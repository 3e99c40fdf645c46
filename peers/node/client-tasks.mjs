// A client that runs tools as the experimental tasks of 2025-11-25, on the official TypeScript SDK v1.
//
// client-tasks.mjs <url>: prints one line of JSON with the outcome of each step

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [url] = process.argv.slice(2);
const client = new Client({ name: 'node-client-tasks', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
const questions = [];
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    questions.push({ message: params.message, task: params._meta?.['io.modelcontextprotocol/related-task']?.taskId });
    return { action: 'accept', content: { name: 'Ann' } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.listTools();

/** Calls a tool as a task. Returns the kinds of the received messages, the task and the text of the result. */
async function run(name) {
    const kinds = [];
    let task, text;
    for await (const message of client.experimental.tasks.callToolStream({ name, arguments: {} }, CallToolResultSchema, {
        task: { ttl: 30000 }
    })) {
        if (kinds.at(-1) !== message.type) kinds.push(message.type);
        if (message.type === 'taskCreated') task = message.task;
        if (message.type === 'result') text = message.result.content[0].text;
        if (message.type === 'error') text = message.error.message;
    }
    return { kinds, task, text };
}

const slow = await run('slow');
const asking = await run('asking');
const required = await run('required');
const got = await client.experimental.tasks.getTask(slow.task.taskId);
const listed = await client.experimental.tasks.listTasks();

const endless = client.experimental.tasks.callToolStream({ name: 'endless', arguments: {} }, CallToolResultSchema, {
    task: {}
});
const created = (await endless.next()).value.task;
const cancelled = await client.experimental.tasks.cancelTask(created.taskId);
await endless.return();

console.log(
    JSON.stringify({
        slow: { kinds: slow.kinds, text: slow.text, ttl: slow.task.ttl, status: got.status },
        asking: {
            text: asking.text,
            questions: questions.map(({ message }) => message),
            related: questions.every(({ task }) => task === asking.task.taskId)
        },
        required: required.text,
        listed: listed.tasks.length,
        cancelled: cancelled.status
    })
);
await client.close();
