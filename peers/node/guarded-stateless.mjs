// A guarded server of the stateless era, on the official TypeScript SDK v2.
//
// guarded-stateless.mjs <issuer>

import { createServer } from 'node:http';

import {
    createMcpHandler,
    getOAuthProtectedResourceMetadataUrl,
    McpServer,
    oauthMetadataResponse,
    OAuthError,
    OAuthErrorCode,
    requireBearerAuth
} from '@modelcontextprotocol/server';

import { discover, READ, readBy, verifier } from './guard.mjs';
import { serveFetch } from './fetch-server.mjs';

const oauthMetadata = await discover(process.argv[2]);

function build() {
    const server = new McpServer({ name: 'node-guarded-stateless', version: '1.0.0' });
    server.registerTool('read', { description: 'Tells who calls' }, async ({ http }) => readBy(http.authInfo));
    return server;
}

const handler = createMcpHandler(build, { onerror: (error) => console.error(error) });
let guard, metadata;

async function answer(request) {
    const document = oauthMetadataResponse(request, metadata);
    if (document) return document;
    const authInfo = await guard(request);
    return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo });
}

const http = createServer(serveFetch(answer)).listen(0, '127.0.0.1', () => {
    const origin = `http://127.0.0.1:${http.address().port}`;
    const resource = new URL(`${origin}/mcp`);
    const refuse = (error) => {
        throw new OAuthError(OAuthErrorCode.InvalidToken, error.message);
    };
    metadata = { oauthMetadata, resourceServerUrl: resource, scopesSupported: [READ] };
    guard = requireBearerAuth({
        verifier: verifier(oauthMetadata, resource, refuse),
        requiredScopes: [READ],
        expectedResource: resource,
        resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource)
    });
    console.log(origin);
});
