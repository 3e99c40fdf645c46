// Verifies signed tokens with `jose`. Reads a job from standard input: keys, issuer, audience, algorithms, leeway and tokens. Prints a
// list of errors, one for each token; an accepted one has the empty text.

import { readFileSync } from 'node:fs';
import { createLocalJWKSet, jwtVerify } from 'jose';

const job = JSON.parse(readFileSync(0, 'utf8'));
const keys = createLocalJWKSet(job.keys);
const { issuer, audience, algorithms, leeway: clockTolerance } = job;
const options = { issuer, audience, algorithms, clockTolerance, requiredClaims: ['exp', 'sub'] };
const errors = [];
for (const token of job.tokens) {
  try {
    await jwtVerify(token, keys, options);
    errors.push('');
  } catch (error) {
    errors.push(`${error.code ?? error.name}: ${error.message}`);
  }
}
process.stdout.write(JSON.stringify(errors));
