// Loaded before a published server that listens everywhere: it listens on 127.0.0.1 instead, and says where, as ours do.

import { Server } from 'node:net';

const { listen } = Server.prototype;

Server.prototype.listen = function (port, listening) {
    const server = listen.call(this, { port: Number(port), host: '127.0.0.1' }, listening);
    return server.once('listening', () => console.log(`http://127.0.0.1:${server.address().port}`));
};
