// An authorization server on the package `oidc-provider`, on a free port of 127.0.0.1.
//
// oidc-provider.mjs [settings]
//
// The settings are JSON:
//   lifetime: lifetime of access tokens in seconds. Default: 3600
//   format: format of access tokens, `jwt` or `opaque`. Default: `jwt`
//   algorithm: signature algorithm of tokens. Default: `ES256`
//   nonce: `true` if proofs of possession (DPoP) need a nonce. Default: `false`
//   clients: registered clients, in addition to `robot` and `guard`
//   documents: client ID metadata documents by their URLs
//
// It prints its issuer, and exits when its input ends. Control paths:
//   POST /control/settings   changes the `lifetime` of tokens that are issued later
//   POST /control/rotate     signs with a new key; the old keys stay published
//   POST /control/replace    signs with a new key; the old keys are removed
//   POST /control/events     changes nothing
// Each returns a JSON list of texts: requests for keys, metadata, introspection and revocation, and events of the provider.

import { createServer } from 'node:http';

import { exportJWK, generateKeyPair } from 'jose';
import Provider, { errors } from 'oidc-provider';

import { show } from './oidc-pages.mjs';

const settings = {
    lifetime: 3600,
    format: 'jwt',
    algorithm: 'ES256',
    nonce: false,
    clients: [],
    documents: {},
    ...JSON.parse(process.argv[2] ?? '{}')
};
const SCOPES = 'notes:read notes:write';
const events = [];
let issuer, provider, signing, memory;

const robot = {
    client_id: 'robot',
    client_secret: 'secret of the robot: 100% + more',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: []
};
const guard = { ...robot, client_id: 'guard', client_secret: 'secret of the guard', grant_types: [] };

async function newKey(kid) {
    const alg = settings.algorithm;
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    return { ...(await exportJWK(privateKey)), alg, use: 'sig', kid };
}

/** Allows access tokens for any server on 127.0.0.1. */
function resourceServer(_, resource) {
    if (new URL(resource).hostname !== '127.0.0.1') throw new errors.InvalidTarget();
    return {
        scope: SCOPES,
        audience: resource,
        accessTokenTTL: settings.lifetime,
        accessTokenFormat: settings.format,
        jwt: { sign: { alg: settings.algorithm } }
    };
}

function configuration(keys) {
    return {
        // A provider with new keys uses the storage of the first one.
        adapter: memory && ((name) => memory[name].adapter),
        clients: [robot, guard, ...settings.clients],
        clientDefaults: { id_token_signed_response_alg: settings.algorithm },
        jwks: { keys },
        cookies: { keys: ['of the tests'] },
        findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
        rotateRefreshToken: true,
        issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
        // The default `fetch` connects to public addresses only.
        fetch: async (url) => Response.json(settings.documents[url], { status: settings.documents[url] ? 200 : 404 }),
        features: {
            devInteractions: { enabled: false },
            clientCredentials: { enabled: true },
            deviceFlow: { enabled: true },
            introspection: { enabled: true, allowedPolicy: () => true },
            revocation: { enabled: true },
            registration: { enabled: true },
            clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
            dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => settings.nonce },
            resourceIndicators: {
                enabled: true,
                getResourceServerInfo: resourceServer,
                defaultResource: (_, client, oneOf) => oneOf,
                useGrantedResource: () => true
            }
        }
    };
}

function begin(keys) {
    signing = keys;
    provider = new Provider(issuer, configuration(keys));
    memory ??= provider;
    // The default polling interval of the device flow is 5 s.
    provider.use(async (ctx, next) => {
        await next();
        if (ctx.oidc?.route === 'device_authorization' && ctx.status === 200) ctx.body.interval = 1;
    });
    const tell = (event) => events.push(event);
    provider.on('grant.success', ({ oidc }) => tell(`grant ${oidc.params.grant_type}`));
    provider.on('grant.error', ({ oidc }, error) => tell(`refused ${oidc?.params?.grant_type}: ${error.error} ${error.error_detail ?? error.error_description}`));
    provider.on('grant.revoked', () => tell('family revoked'));
    provider.on('registration_create.success', () => tell('registered'));
    provider.on('registration_create.error', (_, error) => tell(`refused registration: ${error.error_description}`));
    provider.on('authorization.error', (_, error) => tell(`refused authorization: ${error.error} ${error.error_description}`));
    provider.on('introspection.error', (_, error) => tell(`refused introspection: ${error.error_description}`));
    provider.on('server_error', (_, error) => tell(`fault: ${error.stack}`));
}

async function bodyOf(req) {
    let body = '';
    for await (const chunk of req) body += chunk;
    return JSON.parse(body);
}

async function control(path, req, res) {
    const body = await bodyOf(req);
    if (path === 'settings') Object.assign(settings, body);
    if (path === 'rotate' || path === 'replace') {
        const key = await newKey(`key-${events.push(`keys ${path}d`)}`);
        begin(path === 'rotate' ? [key, ...signing] : [key]);
    }
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(events));
}

const WATCHED = new Set(['/jwks', '/token/introspection', '/token/revocation', '/.well-known/openid-configuration']);

const http = createServer(async (req, res) => {
    const { pathname } = new URL(req.url, issuer);
    const [, area, rest] = pathname.split('/');
    if (WATCHED.has(pathname)) events.push(`request ${pathname}`);
    try {
        if (area === 'control') return await control(rest, req, res);
        if (area === 'interaction') return await show(provider, req, res);
        // The SDKs register with the scopes of their first request. This provider would refuse all others later.
        if (pathname === '/reg') req.body = { ...(await bodyOf(req)), scope: undefined };
        return provider.callback()(req, res);
    } catch (error) {
        events.push(`fault: ${error.stack}`);
        res.writeHead(500).end();
    }
});

http.listen(0, '127.0.0.1', async () => {
    issuer = `http://127.0.0.1:${http.address().port}`;
    begin([await newKey('key-0')]);
    console.log(issuer);
});
process.stdin.resume().on('end', () => process.exit());
