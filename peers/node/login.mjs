// The login of a client, with the interface that both SDKs require. `person.mjs` acts as the user.

import { randomUUID } from 'node:crypto';

import { textOf } from './conversation.mjs';
import { visit } from './person.mjs';

/** An `OAuthClientProvider` that keeps everything in memory. */
export class Login {
    redirectUrl = 'http://127.0.0.1:9/callback';
    logins = 0;

    clientMetadata = {
        client_name: 'peer',
        application_type: 'native',
        redirect_uris: [this.redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none'
    };

    state() {
        return (this.expected = randomUUID());
    }

    clientInformation() {
        return this.client;
    }

    saveClientInformation(client) {
        this.client = client;
    }

    tokens() {
        return this.kept;
    }

    saveTokens(tokens) {
        this.kept = tokens;
    }

    saveCodeVerifier(verifier) {
        this.verifier = verifier;
    }

    codeVerifier() {
        return this.verifier;
    }

    async redirectToAuthorization(url) {
        this.logins += 1;
        this.callback = new URL(await visit(url.href)).searchParams;
        if (this.callback.get('state') !== this.expected) throw new Error('the state does not match');
        if (!this.callback.has('code')) throw new Error(`the provider refuses: ${this.callback}`);
    }
}

/** Runs an attempt. If it requires a login, completes the login and runs it again. */
async function loggingIn(login, transport, attempt) {
    const before = login.logins;
    try {
        return await attempt();
    } catch (error) {
        if (login.logins === before || !login.callback.has('code')) throw error;
        await transport().finishAuth(login.callback.get('code'), login.callback.get('iss') ?? undefined);
        return attempt();
    }
}

/** Connects, calls a tool, renews the token, obtains more scopes if the SDK supports that, and prints a report. */
export async function report({ open, stepsUp }) {
    const login = new Login();
    let client, transport;
    const connect = async () => {
        ({ client, transport } = open(login));
        await client.connect(transport);
    };
    const call = async (name) => textOf(await client.callTool({ name, arguments: {} }));
    await loggingIn(login, () => transport, connect);
    const read = await call('read');
    const before = login.kept;
    // The server refuses this token.
    login.kept = { ...before, access_token: `${before.access_token}x` };
    const renewed = await call('read');
    const rotated = login.kept.refresh_token !== before.refresh_token;
    const written = stepsUp && (await loggingIn(login, () => transport, () => call('write')));
    await client.close();
    console.log(JSON.stringify({ read, renewed, rotated, written, logins: login.logins }));
}
