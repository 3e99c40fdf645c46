// Preloaded into a published server that listens on all addresses: makes it listen on 127.0.0.1 and print its URL.

import { Server } from 'node:net';

const { listen } = Server.prototype;

Server.prototype.listen = function (port, listening) {
    const server = listen.call(this, { port: Number(port), host: '127.0.0.1' }, listening);
    return server.once('listening', () => console.log(`http://127.0.0.1:${server.address().port}`));
};
