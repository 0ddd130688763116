// Runs every case in Chromium against a live server. `npm run test:browser [name]` runs those whose
// name contains the word. Exits 1 when one fails; prints figures that cases report. A case that fails is
// tried again, twice at most, and said to have been: a browser on a busy machine drops a click now and then.
import { launch } from './browser.mjs';
import { startServer } from './server.mjs';
import { cases as query } from './cases/query.mjs';
import { cases as pages } from './cases/pages.mjs';
import { cases as hostile } from './cases/hostile.mjs';
import { cases as failures } from './cases/failures.mjs';
import { cases as speed } from './cases/speed.mjs';
import { cases as cost } from './cases/cost.mjs';

const wanted = process.argv[2] ?? '';
const cases = [...query, ...pages, ...hostile, ...failures, ...speed, ...cost].filter(({ name }) =>
  name.includes(wanted),
);
if (cases.length === 0) throw new Error(`no case has "${wanted}" in its name`);

const server = await startServer();
const browser = await launch();
const TRIES = 3;

/** Runs a case once; its error, or null. Pages that it left open are closed. */
async function attempt({ name, run }) {
  const began = Date.now();
  try {
    const told = await run({ browser, url: server.url });
    console.log(`ok      ${name} (${Date.now() - began} ms)${told ? `: ${told}` : ''}`);
    return null;
  } catch (error) {
    await Promise.all(browser.contexts().map((context) => context.close()));
    return error;
  }
}

let failed = 0;
let repeated = 0;
for (const one of cases) {
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const error = await attempt(one);
    if (error === null) break;
    console.log(`${tries < TRIES ? 'again   ' : 'FAILED  '}${one.name}\n${error.stack}`);
    if (tries < TRIES) repeated += 1;
    else failed += 1;
  }
}
await browser.close();
await server.stop();
console.log(`RESULT page cases=${cases.length} failed=${failed} repeated=${repeated}`);
process.exit(failed === 0 ? 0 : 1);
