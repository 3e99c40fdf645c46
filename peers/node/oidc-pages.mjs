// The login and consent pages of the authorization server.

const page = (title, form) => `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>${title}</title></head>
<body><h1>${title}</h1><form method="post">${form}</form></body>
</html>`;

const LOGIN = page(
    'Log in',
    `<label>Account <input type="text" name="account" required></label>
    <label>Password <input type="password" name="password" required></label>
    <button type="submit">Log in</button>`
);

const CONSENT = page(
    'Grant access',
    `<button type="submit" name="consent" value="yes">Allow</button>
    <button type="submit" name="consent" value="no">Deny</button>`
);

/** Shows the page of an interaction, or handles its form. */
export async function show(provider, req, res) {
    const interaction = await provider.interactionDetails(req, res);
    if (req.method === 'GET') {
        const html = interaction.prompt.name === 'login' ? LOGIN : CONSENT;
        return res.writeHead(200, { 'content-type': 'text/html', 'cache-control': 'no-store' }).end(html);
    }
    let body = '';
    for await (const chunk of req) body += chunk;
    const form = new URLSearchParams(body);
    const result = interaction.prompt.name === 'login' ? logIn(form) : await consent(provider, interaction, form);
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: interaction.prompt.name !== 'login' });
}

function logIn(form) {
    if (form.get('password') !== 'open sesame') return { error: 'access_denied', error_description: 'wrong password' };
    return { login: { accountId: form.get('account') } };
}

async function consent(provider, { params, session, grantId, prompt }, form) {
    if (form.get('consent') !== 'yes') return { error: 'access_denied', error_description: 'the person refused' };
    const known = grantId && (await provider.Grant.find(grantId));
    const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
    grant.addOIDCScope(missingOIDCScope.join(' '));
    for (const [resource, scopes] of Object.entries(missingResourceScopes)) grant.addResourceScope(resource, scopes.join(' '));
    return { consent: { grantId: await grant.save() } };
}
