// HTTP for the servers of this directory that are started with --http. They listen on a free port of 127.0.0.1 and print their URL.

import { createServer } from 'node:http';
import { Readable } from 'node:stream';

/** `true` if the server was started with --http. */
export const wanted = process.argv.includes('--http');

/** Listens, and calls the handler with each request, its response and its URL. */
export function listen(handle) {
    const server = createServer((req, res) => {
        const url = new URL(req.url, `http://${req.headers.host}`);
        handle(req, res, url).catch((error) => {
            console.error(error);
            if (!res.headersSent) res.writeHead(500);
            res.end();
        });
    });
    server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
}

/** Responds with the result of a fetch handler, a function that takes a `Request` and returns a `Response`. */
export async function answer(fetch, req, res, url) {
    const given_up = new AbortController();
    res.on('close', () => given_up.abort());
    const body = req.method === 'POST' ? Readable.toWeb(req) : undefined;
    const { method, headers } = req;
    const response = await fetch(new Request(url, { method, headers, body, duplex: 'half', signal: given_up.signal }));
    res.writeHead(response.status, Object.fromEntries(response.headers));
    res.flushHeaders();
    if (!response.body) return void res.end();
    const stream = Readable.fromWeb(response.body);
    res.on('close', () => stream.destroy());
    stream.on('error', () => res.destroy()).pipe(res);
}

export function refuse(res, status) {
    res.writeHead(status).end();
}
