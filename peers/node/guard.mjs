// The access tokens that the guarded servers of this directory accept: those that the issuer has signed for them.

import { createRemoteJWKSet, jwtVerify } from 'jose';

export const READ = 'notes:read';

/** A verifier of tokens in the form that both SDKs ask for. `refuse` makes their error for a token that is no good. */
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

/** The metadata of an issuer. */
export async function discover(issuer) {
    return (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
}

/** The result of the tool `read`. */
export function readBy(authInfo) {
    return { content: [{ type: 'text', text: `read by ${authInfo.extra.subject}` }] };
}
