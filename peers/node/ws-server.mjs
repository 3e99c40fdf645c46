// A server on the official TypeScript SDK v1 behind the `ws` package, which is not one of the SDK's own transports. It prints
// the port on which it listens. It sends each message as several lines in three frames, with a ping between.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WebSocketServer } from 'ws';

import * as memo from './memo.mjs';

class WebSocketTransport {
    constructor(socket) {
        this.socket = socket;
    }

    async start() {
        this.socket.on('message', (data, isBinary) => {
            if (isBinary) {
                this.socket.close(1003, 'text, please');
            } else {
                this.onmessage?.(JSON.parse(data));
            }
        });
        this.socket.on('close', () => this.onclose?.());
        this.socket.on('error', error => this.onerror?.(error));
    }

    async send(message) {
        const text = Buffer.from(JSON.stringify(message, null, 2));
        const third = Math.floor(text.length / 3);
        const options = { binary: false, fin: false };
        this.socket.send(text.subarray(0, third), options);
        this.socket.ping('between');
        this.socket.send(text.subarray(third, 2 * third), options);
        this.socket.send(text.subarray(2 * third), { ...options, fin: true });
    }

    async close() {
        this.socket.close();
    }
}

const listener = new WebSocketServer({
    host: '127.0.0.1',
    port: 0,
    handleProtocols: offered => (offered.has('mcp') ? 'mcp' : false)
});
listener.on('connection', async socket => {
    const server = new McpServer({ name: 'node-ws', version: '1.0.0' }, memo.serverOptions({ subscribe: false }));
    memo.offerTools(server);
    server.registerTool(
        'slow',
        { description: 'Takes three steps and reports each', inputSchema: memo.slowInput },
        async (args, { _meta, signal, sendNotification }) =>
            memo.work(args, _meta?.progressToken, signal, sendNotification)
    );
    server.registerTool('greet', { description: 'Asks for a name and greets it' }, async () =>
        memo.greeting(
            await server.server.elicitInput({ message: 'What is your name?', requestedSchema: memo.nameSchema })
        )
    );
    server.registerTool('leave', { description: 'Closes the connection' }, async () => {
        socket.close(4000, 'as asked');
        return memo.text('never heard');
    });
    await server.connect(new WebSocketTransport(socket));
});
listener.on('listening', () => console.log(listener.address().port));
// The parent process stops this one by closing its input.
process.stdin.on('end', () => process.exit(0)).resume();
