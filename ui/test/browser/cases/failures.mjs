// What the page says when things go wrong, and that it does not lose what it had.
import assert from 'node:assert/strict';
import { graphDrawn, openPage, paramsWhen, shoot } from '../browser.mjs';

export const cases = [
  { name: 'a server that goes away: message, old graph, recovery', run: goneServer },
  { name: 'a server without series yet: queries appear as they come', run: young },
  { name: 'refusals and failures name their reason', run: refusals },
  { name: 'an answer slower than the refresh still arrives', run: slowRefresh },
  { name: 'a slow query can be cancelled, a stale one is given up', run: slow },
];

async function goneServer({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { failedRequests: true });
  await page.goto(`${url}/query?g0.expr=up&g0.range_input=10m`);
  await graphDrawn(page);
  await page.route('**/api/v1/query_range*', (route) => route.abort('connectionrefused'));
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText('No connection').waitFor();
  await page.getByText('Below is the answer of').waitFor();
  assert.equal(await page.locator('.u-wrap > canvas').count(), 1);
  await shoot(page, 'gone-light');
  await page.unroute('**/api/v1/query_range*');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('No connection').waitFor({ state: 'detached' });
  assert.deepEqual(faults, []);
  await close();
}

async function refusals({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { failedRequests: true });
  const error = (status, errorType, text) => ({
    status,
    contentType: 'application/json',
    body: JSON.stringify({ status: 'error', errorType, error: text }),
  });
  const answers = [
    [error(503, 'timeout', 'query timed out in expression evaluation'), 'The query took too long'],
    [error(422, 'execution', 'too many samples'), 'The query failed'],
    [error(500, 'internal', 'disk on fire'), 'The server failed to answer'],
    [{ status: 502, contentType: 'text/html', body: '<h1>Bad</h1>' }, 'HTTP 502: Bad Gateway'],
    [
      { status: 200, contentType: 'text/html', body: '<h1>Log in</h1>' },
      'not one of the Prometheus API',
    ],
  ];
  let next = 0;
  await page.route('**/api/v1/query_range*', (route) => route.fulfill(answers[next][0]));
  for (; next < answers.length; next += 1) {
    await page.goto(`${url}/query?g0.range_input=5m&g0.expr=up`);
    await page.getByRole('alert').getByText(answers[next][1]).waitFor();
  }
  await page.route('**/api/v1/targets?*', (route) => route.abort('connectionrefused'));
  await page.goto(`${url}/targets`);
  await page.getByText('No connection').waitFor();
  assert.deepEqual(faults, []);
  await close();
}

async function slow({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  const aborted = [];
  page.on('requestfailed', (request) => aborted.push(request.url()));
  await page.route('**/api/v1/query_range?query=slow*', () => {});
  // An hour would leave a young server's data too few pixels.
  await page.goto(`${url}/query?g0.expr=slow&g0.range_input=5m`);
  await page.getByText('Still running').waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Run' }).waitFor();
  await page.waitForTimeout(50);
  assert.equal(aborted.length, 1);
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByRole('button', { name: 'Cancel' }).waitFor();
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('up', { delay: 5 });
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await paramsWhen(page, (p) => p.get('g0.expr') === 'up');
  await graphDrawn(page);
  assert.equal(aborted.length, 2, 'the stale request was given up');
  assert.deepEqual(faults, []);
  await close();
}

async function slowRefresh({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.route('**/api/v1/query_range*', async (route) => {
    const answer = await route.fetch();
    await new Promise((resolve) => setTimeout(resolve, 1700));
    await route.fulfill({ response: answer }).catch(() => {});
  });
  await page.goto(`${url}/query?g0.expr=up&g0.range_input=10m&refresh=1s`);
  await graphDrawn(page);
  await page.getByRole('tab', { name: 'Table' }).click();
  await page.locator('.result-row').first().waitFor();
  await page.getByRole('tab', { name: 'Graph' }).click();
  assert.equal(await page.locator('.u-wrap > canvas').count(), 1, 'the graph is there at once');
  assert.deepEqual(faults, []);
  await close();
}

async function young({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  let names = [];
  await page.route('**/api/v1/label/__name__/values*', (route) =>
    route.fulfill({ json: { status: 'success', data: names } }),
  );
  await page.goto(`${url}/query`);
  await page.getByText('There are no series yet').waitFor();
  names = ['up'];
  await page.getByRole('button', { name: /^Targets up/ }).waitFor();
  assert.deepEqual(faults, []);
  await close();
}
