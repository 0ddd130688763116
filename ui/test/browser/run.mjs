// Runs every case in Chromium against a live server. `npm run test:browser [name]` runs those whose
// name contains the word. Exits 1 when one fails; prints figures that cases report.
import { launch } from './browser.mjs';
import { startServer } from './server.mjs';
import { cases as query } from './cases/query.mjs';
import { cases as pages } from './cases/pages.mjs';
import { cases as hostile } from './cases/hostile.mjs';
import { cases as failures } from './cases/failures.mjs';
import { cases as speed } from './cases/speed.mjs';

const wanted = process.argv[2] ?? '';
const cases = [...query, ...pages, ...hostile, ...failures, ...speed].filter(({ name }) =>
  name.includes(wanted),
);
if (cases.length === 0) throw new Error(`no case has "${wanted}" in its name`);

const server = await startServer();
const browser = await launch();
let failed = 0;
for (const { name, run } of cases) {
  const began = Date.now();
  try {
    const told = await run({ browser, url: server.url });
    console.log(`ok      ${name} (${Date.now() - began} ms)${told ? `: ${told}` : ''}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}
await browser.close();
await server.stop();
console.log(`RESULT page cases=${cases.length} failed=${failed}`);
process.exit(failed === 0 ? 0 : 1);
