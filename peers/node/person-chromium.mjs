// A user with Chromium: opens a URL, fills in the forms of `oidc-provider.mjs`, and clicks.
//
// person-chromium.mjs <url> <report>
//
// The report is a file of JSON lines: the version of the browser, then the origin, path and text of each page, then the end.

import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import puppeteer from 'puppeteer-core';

import { chromium } from './chromium.mjs';

const [url, report] = process.argv.slice(2);
const start = new URL(url);
const userDataDir = mkdtempSync(join(tmpdir(), 'turms-chromium-'));

function tell(line) {
    appendFileSync(report, `${JSON.stringify(line)}\n`);
}

async function look(page) {
    const { origin, pathname } = new URL(page.url());
    tell({ origin, path: pathname, text: await page.$eval('body', (body) => body.innerText) });
}

/** Fills in and submits the form of a page, and waits for the next page. */
async function answer(page) {
    if (await page.$('input[name=password]')) {
        await page.type('input[name=account]', 'ann');
        await page.type('input[name=password]', 'open sesame');
    }
    await Promise.all([page.waitForNavigation(), page.click('button')]);
}

// Containers have a small /dev/shm and often run as root, for which Chromium has no sandbox.
const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--no-proxy-server'];
const browser = await puppeteer.launch({ ...chromium(), args, userDataDir, headless: 'shell' });
try {
    tell({ version: await browser.version() });
    const page = await browser.newPage();
    await page.goto(start.href);
    await look(page);
    while (new URL(page.url()).origin === start.origin) {
        await answer(page);
        await look(page);
    }
} finally {
    await browser.close();
    rmSync(userDataDir, { recursive: true, force: true });
    tell({ end: true });
}
