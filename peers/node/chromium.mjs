// Finds Chromium: the one in the variable CHROMIUM, one on PATH, or that of the package `@sparticuz/chromium`, which is for Linux on
// x86-64.
//
// chromium.mjs
//
// Run as a program, it unpacks the one of the package if there is no other.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';

const NAMES = ['chromium', 'chromium-browser', 'chromium-headless-shell', 'google-chrome', 'google-chrome-stable'];
const UNPACKED = join(import.meta.dirname, 'chromium');
const PACKAGED = join(UNPACKED, 'chromium');
const LIBRARIES = join(UNPACKED, 'al2023/lib');
const ADVICE = 'install Chromium, or set CHROMIUM to its path';

/** Returns the path of the browser and the environment to start it with. */
export function chromium() {
    const executablePath = process.env.CHROMIUM ?? installed() ?? PACKAGED;
    if (!existsSync(executablePath)) throw new Error(`there is no Chromium: ${ADVICE}`);
    const isBare = executablePath === PACKAGED && existsSync(LIBRARIES);
    return { executablePath, env: isBare ? { ...process.env, LD_LIBRARY_PATH: LIBRARIES } : process.env };
}

function installed() {
    const directories = process.env.PATH.split(delimiter);
    return directories.flatMap((directory) => NAMES.map((name) => join(directory, name))).find((path) => existsSync(path));
}

async function unpack() {
    rmSync(UNPACKED, { recursive: true, force: true });
    mkdirSync(UNPACKED);
    // The package unpacks into the directory for temporary files.
    process.env.TMPDIR = UNPACKED;
    const { default: packaged } = await import('@sparticuz/chromium');
    await packaged.executablePath();
    if (fault() === '') return;
    // Small systems lack libraries that the package also contains.
    const archive = readFileSync(join(import.meta.dirname, 'node_modules/@sparticuz/chromium/bin/al2023.tar.br'));
    spawnSync('tar', ['--extract', '--one-top-level=al2023', '--directory', UNPACKED], { input: brotliDecompressSync(archive) });
    if (fault() !== '') throw new Error(`Chromium does not start (${fault()}): ${ADVICE}`);
}

/** Returns the reason why the browser does not start, or an empty string. */
function fault() {
    const { executablePath, env } = chromium();
    const { status, stderr, error } = spawnSync(executablePath, ['--version'], { env, encoding: 'utf8' });
    return status === 0 ? '' : `${error ?? stderr.trim()}`;
}

if (process.argv[1] === import.meta.filename && !process.env.CHROMIUM && !installed()) {
    if (process.platform === 'linux' && process.arch === 'x64') await unpack();
    else console.error(`there is no Chromium: ${ADVICE}`);
}
