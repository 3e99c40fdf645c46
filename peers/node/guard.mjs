// Verification of access tokens for the guarded servers of this directory: signature, issuer and audience.

import { createRemoteJWKSet, jwtVerify } from 'jose';

export const READ = 'notes:read';

/** Creates a token verifier with the interface that both SDKs require. `refuse` throws their error for an invalid token. */
export function verifier(metadata, resource, refuse) {
    const keys = createRemoteJWKSet(new URL(metadata.jwks_uri));
    return {
        verifyAccessToken: async (token) => {
            const checks = { issuer: metadata.issuer, audience: resource.href, typ: 'at+jwt' };
            const { payload } = await jwtVerify(token, keys, checks).catch((error) => refuse(error));
            return {
                token,
                clientId: payload.client_id,
                scopes: payload.scope.split(' '),
                expiresAt: payload.exp,
                resource: new URL(payload.aud),
                extra: { subject: payload.sub }
            };
        }
    };
}

/** Fetches the metadata of an issuer. */
export async function discover(issuer) {
    return (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
}

/** The result of the tool `read`. */
export function readBy(authInfo) {
    return { content: [{ type: 'text', text: `read by ${authInfo.extra.subject}` }] };
}
