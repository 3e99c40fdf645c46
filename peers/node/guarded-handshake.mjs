// A guarded server of the handshake era, on the official TypeScript SDK v1 and its middleware for express.
//
// guarded-handshake.mjs <issuer>

import { randomUUID } from 'node:crypto';

import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

import { discover, READ, readBy, verifier } from './guard.mjs';

const oauthMetadata = await discover(process.argv[2]);
const sessions = new Map();

async function serve(req, res) {
    const id = req.headers['mcp-session-id'];
    if (id !== undefined) {
        const known = sessions.get(id);
        return known ? known.handleRequest(req, res, req.body) : res.writeHead(404).end();
    }
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport)
    });
    const server = new McpServer({ name: 'node-guarded-handshake', version: '1.0.0' });
    server.registerTool('read', { description: 'Tells who calls' }, async ({ authInfo }) => readBy(authInfo));
    await server.connect(transport);
    await transport.handleRequest(req, res, req.body);
}

const app = createMcpExpressApp();
const http = app.listen(0, '127.0.0.1', () => {
    const origin = `http://127.0.0.1:${http.address().port}`;
    const resource = new URL(`${origin}/mcp`);
    const refuse = (error) => {
        throw new InvalidTokenError(error.message);
    };
    const guard = requireBearerAuth({
        verifier: verifier(oauthMetadata, resource, refuse),
        requiredScopes: [READ],
        expectedResource: resource,
        resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource)
    });
    app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: resource, scopesSupported: [READ] }));
    app.all('/mcp', guard, serve);
    console.log(origin);
});
