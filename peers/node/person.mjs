// A user with a browser without scripts: follows redirects, keeps cookies, and submits the forms of `oidc-provider.mjs`.
//
// person.mjs <url> [answers]
//
// The answers are JSON: values of fields. It prints the last URL: a redirect to another server, which is not opened, or a page without
// a form.

const ANSWERS = { account: 'ann', password: 'open sesame' };

/** Opens a URL, and returns the last one after all redirects and forms. */
export async function visit(start, answers = {}) {
    const { origin } = new URL(start);
    const cookies = new Map();
    let [url, form] = [new URL(start), undefined];
    for (let step = 0; step < 30; step++) {
        if (url.origin !== origin) return url.href;
        const response = await send(url, form, cookies);
        form = undefined;
        if (response.headers.has('location')) {
            url = new URL(response.headers.get('location'), url);
            continue;
        }
        const html = await response.text();
        if (response.status !== 200) throw new Error(`${url.pathname} is answered with ${response.status}: ${html}`);
        const found = html.match(/<form[^>]*>/i);
        if (!found) return url.href;
        url = new URL(attribute(found[0], 'action') ?? url, url);
        form = filledIn(html, { ...ANSWERS, ...answers });
    }
    throw new Error(`too many redirects and forms, the last at ${url}`);
}

async function send(url, form, cookies) {
    const sent = [...cookies].filter(([key]) => `${url.pathname}/`.startsWith(key.split(';')[1].replace(/\/?$/, '/')));
    const response = await fetch(url, {
        redirect: 'manual',
        method: form ? 'POST' : 'GET',
        body: form,
        headers: { cookie: sent.map(([key, value]) => `${key.split(';')[0]}=${value}`).join('; ') }
    });
    for (const line of response.headers.getSetCookie()) {
        const [pair, ...rest] = line.split(';').map((part) => part.trim());
        const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)];
        const path = rest.find((part) => part.toLowerCase().startsWith('path='))?.slice(5) ?? '/';
        if (value) cookies.set(`${name};${path}`, value);
        else cookies.delete(`${name};${path}`);
    }
    return response;
}

/** Returns the fields of the form of a page, including its first button. */
function filledIn(html, answers) {
    const form = new URLSearchParams();
    for (const [tag] of html.matchAll(/<(input|button)[^>]*>/gi)) {
        const name = attribute(tag, 'name');
        if (!name || form.has(name) || name === 'abort') continue;
        form.set(name, answers[name] ?? attribute(tag, 'value') ?? '');
    }
    return form;
}

function attribute(tag, name) {
    return tag.match(new RegExp(`\\s${name}="([^"]*)"`))?.[1].replaceAll('&amp;', '&');
}

if (process.argv[1] === import.meta.filename) console.log(await visit(process.argv[2], JSON.parse(process.argv[3] ?? '{}')));
