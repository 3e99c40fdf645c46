// An adapter from `node:http` to the fetch API: the part of `@modelcontextprotocol/node` that is needed here.

import { Readable } from 'node:stream';

/** Creates a listener for `node:http` from a function that takes a `Request` and returns a `Response`. */
export function serveFetch(answer) {
    return (req, res) => respond(answer, req, res).catch(() => res.destroy());
}

async function respond(answer, req, res) {
    const gone = new AbortController();
    res.on('close', () => gone.abort());
    const bare = req.method === 'GET' || req.method === 'DELETE';
    const request = new Request(`http://${req.headers.host}${req.url}`, {
        method: req.method,
        headers: req.headers,
        body: bare ? undefined : Readable.toWeb(req),
        duplex: 'half',
        signal: gone.signal
    });
    const response = await answer(request);
    res.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
    if (response.body) Readable.fromWeb(response.body).on('error', () => res.destroy()).pipe(res);
    else res.end();
}
