// The query page: from the first visit to a shared link.
import assert from 'node:assert/strict';
import { coloredPixels, graphDrawn, openPage, paramsWhen, shoot } from '../browser.mjs';

const CPU = 'sum by (mode) (rate(node_cpu_seconds_total[1m]))';

export const cases = [
  { name: 'first visit offers queries and one click draws a graph', run: firstVisit },
  { name: 'an expression typed with completion becomes a graph', run: completion },
  { name: 'a drag zooms, a double click zooms back, the history remembers', run: zoom },
  { name: 'stacked, table, panels, and the address restores all of it', run: panels },
  { name: 'every kind of result has its table', run: kinds },
  { name: 'an error is shown at its place and in words', run: errorPlace },
  { name: 'legend and readout', run: legend },
  { name: 'keyboard: slash, question mark, escape, history', run: keyboard },
  { name: 'auto-refresh asks again and keeps the graph', run: refresh },
];

async function firstVisit({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/query`);
  await page.getByText('begin with one of these').waitFor();
  await shoot(page, 'first-visit-light');
  await page.getByRole('button', { name: /^Scrape duration/ }).click();
  await graphDrawn(page);
  const params = await paramsWhen(page, (p) => p.get('g0.expr') === 'scrape_duration_seconds');
  assert.equal(params.get('g0.tab'), '0');
  assert.equal(params.get('g0.range_input'), '5m');
  assert.deepEqual(faults, []);
  await close();
}

async function completion({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/query?g0.range_input=5m`);
  const editor = page.locator('.cm-content');
  await editor.click();
  await page.keyboard.type('scrape_dur', { delay: 25 });
  const list = page.locator('.cm-tooltip-autocomplete');
  await list.getByText('scrape_duration_seconds').first().waitFor();
  await shoot(page, 'completion-light');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    () => document.querySelector('.cm-content').textContent === 'scrape_duration_seconds',
  );
  await page.keyboard.type('{', { delay: 25 });
  await list.getByText('instance').first().waitFor();
  await page.keyboard.type('job=', { delay: 25 });
  await page.keyboard.type('"', { delay: 25 });
  await list.locator('li').first().waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.type('nonsense', { delay: 5 });
  await page.keyboard.press('Control+a');
  await page.keyboard.type('scrape_duration_seconds', { delay: 5 });
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await graphDrawn(page);
  await paramsWhen(page, (p) => p.get('g0.expr') === 'scrape_duration_seconds');
  assert.equal(await page.title(), 'scrape_duration_seconds · unladen');
  assert.deepEqual(faults, []);
  await close();
}

async function zoom({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/query?g0.expr=${encodeURIComponent(CPU)}&g0.range_input=10m`);
  await graphDrawn(page);
  const over = await page.locator('.u-over').boundingBox();
  const drag = async (from, to) => {
    await page.mouse.move(over.x + over.width * from, over.y + 80);
    await page.mouse.down();
    await page.mouse.move(over.x + over.width * ((from + to) / 2), over.y + 100, { steps: 4 });
    await page.mouse.move(over.x + over.width * to, over.y + 100, { steps: 4 });
    await page.mouse.up();
  };
  await drag(0.75, 0.95);
  const zoomed = await paramsWhen(page, (p) => p.has('g0.end_input'));
  const seconds = /^(\d+)m(?:(\d+)s)?$/.exec(zoomed.get('g0.range_input'));
  assert.ok(seconds, zoomed.get('g0.range_input'));
  const range = Number(seconds[1]) * 60 + Number(seconds[2] ?? 0);
  assert.ok(range > 90 && range < 150, `a fifth of ten minutes is ${range} s`);
  await page.waitForTimeout(300);
  await page.mouse.dblclick(over.x + over.width / 2, over.y + 80);
  await paramsWhen(page, (p) => p.get('g0.range_input') === '10m' && !p.has('g0.end_input'));
  await page.goBack();
  await paramsWhen(page, (p) => p.has('g0.end_input'));
  await page.goBack();
  await paramsWhen(page, (p) => !p.has('g0.end_input'));
  await page.goForward();
  await paramsWhen(page, (p) => p.has('g0.end_input'));
  await page.getByRole('button', { name: 'Now' }).click();
  await paramsWhen(page, (p) => !p.has('g0.end_input'));
  const field = page.getByRole('textbox', { name: 'Range' });
  await field.fill('2h');
  await field.press('Enter');
  await paramsWhen(page, (p) => p.get('g0.range_input') === '2h');
  await page.getByRole('button', { name: 'Longer range' }).click();
  await paramsWhen(page, (p) => p.get('g0.range_input') === '6h');
  await page.getByRole('button', { name: 'Shorter range' }).click();
  await paramsWhen(page, (p) => p.get('g0.range_input') === '2h');
  await field.fill('soon');
  await field.press('Enter');
  assert.equal(await field.getAttribute('aria-invalid'), 'true');
  assert.deepEqual(faults, []);
  await close();
}

async function panels({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { colorScheme: 'dark' });
  await page.goto(`${url}/query?g0.expr=${encodeURIComponent(CPU)}&g0.range_input=10m`);
  const lines = await graphDrawn(page);
  await page.getByRole('button', { name: 'Stacked' }).click();
  await paramsWhen(page, (p) => p.get('g0.display_mode') === 'stacked');
  await page.waitForTimeout(200);
  const stacked = await graphDrawn(page);
  assert.ok(stacked > lines, `areas cover more than lines: ${stacked} and ${lines}`);

  await page.getByRole('button', { name: 'Add panel' }).click();
  const second = page.locator('.panel').nth(1);
  await second.locator('.cm-content').click();
  await page.keyboard.type('up', { delay: 10 });
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await second.getByRole('tab', { name: 'Table' }).click();
  await second.locator('.result-row').first().waitFor();
  const rows = await second.locator('.result-row').count();
  assert.ok(rows > 0);
  assert.match(await second.locator('.result-row .exact').first().textContent(), /^[01]$/);
  await second.getByText('Evaluated at').waitFor();
  await shoot(page, 'two-panels-dark');

  const before = page.url();
  await page.reload();
  await graphDrawn(page);
  await page.locator('.panel').nth(1).locator('.result-row').first().waitFor();
  assert.equal(page.url(), before);
  assert.equal(await page.locator('.panel').count(), 2);
  const pressed = page.locator('.panel').first().getByRole('button', { name: 'Stacked' });
  assert.equal(await pressed.getAttribute('aria-pressed'), 'true');
  assert.equal(await page.locator('.panel').nth(1).locator('.cm-content').textContent(), 'up');

  await page.getByRole('button', { name: 'Duplicate panel 2' }).click();
  await page.locator('.panel').nth(2).locator('.result-row').first().waitFor();
  await page.getByRole('button', { name: 'Remove panel 1' }).click();
  await paramsWhen(
    page,
    (p) => p.get('g0.expr') === 'up' && p.get('g1.expr') === 'up' && !p.has('g2.expr'),
  );
  assert.deepEqual(faults, []);
  await close();
}

async function errorPlace({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { failedRequests: true });
  const broken = encodeURIComponent('sum(up) by (job) +\n  rate(up)');
  await page.goto(`${url}/query?g0.range_input=5m&g0.expr=${broken}`);
  const alert = page.getByRole('alert');
  await alert.waitFor();
  const text = await alert.textContent();
  assert.match(text, /^Line 2, column 8: /, text);
  assert.equal((await page.locator('.cm-server-error').allTextContents()).join(''), 'up');
  await shoot(page, 'error-light');
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('up', { delay: 10 });
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await graphDrawn(page);
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.deepEqual(faults, []);
  await close();
}

async function legend({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/query?g0.expr=${encodeURIComponent(CPU)}&g0.range_input=10m`);
  const all = await graphDrawn(page);
  const rows = page.locator('.legend-row');
  const count = await rows.count();
  assert.ok(count >= 5, `${count} modes`);
  const idle = rows.filter({ hasText: '"idle"' });
  await idle.click();
  assert.equal(await page.locator('.legend-row[aria-pressed=true]').count(), 1);
  await page.mouse.move(5, 5);
  await page.waitForTimeout(100);
  const one = await coloredPixels(page);
  assert.ok(one > 50 && one < all, `one of ${all}: ${one}`);
  await paramsWhen(page, (p) => p.has('g0.only'));
  await page.reload();
  await graphDrawn(page);
  assert.equal(
    await page.locator('.legend-row[aria-pressed=true]').count(),
    1,
    'kept in the address',
  );
  await idle.click();
  await paramsWhen(page, (p) => !p.has('g0.only'));
  assert.equal(await page.locator('.legend-row[aria-pressed=true]').count(), count);
  await idle.click({ modifiers: ['Control'] });
  assert.equal(await page.locator('.legend-row[aria-pressed=true]').count(), count - 1);
  await page.getByRole('button', { name: 'show all' }).click();

  const over = await page.locator('.u-over').boundingBox();
  const readout = page.locator('.readout');
  let named = false;
  for (let step = 0; step <= 20 && !named; step += 1) {
    await page.mouse.move(over.x + over.width * 0.97, over.y + (over.height * step) / 20);
    await page.waitForTimeout(30);
    named = (await readout.locator('.readout-pair').count()) > 0;
  }
  assert.ok(named, 'the readout names the nearest series');
  assert.match(await readout.textContent(), /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*mode"\w+"/);
  await shoot(page, 'graph-light');
  assert.deepEqual(faults, []);
  await close();
}

async function keyboard({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/query?g0.range_input=5m&g0.expr=up`);
  await graphDrawn(page);
  const focused = (selector) =>
    page.evaluate((s) => document.activeElement?.closest(s) !== null, selector);
  await page.keyboard.press('/');
  assert.ok(await focused('.cm-editor'));
  assert.equal(await page.locator('.cm-content').textContent(), 'up');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('or scrape_duration_seconds', { delay: 5 });
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await paramsWhen(page, (p) => p.get('g0.expr') === 'up\nor scrape_duration_seconds');
  await page.keyboard.press('Alt+ArrowUp');
  await page.keyboard.press('Alt+ArrowDown');
  await page.keyboard.press('Escape');
  assert.ok(!(await focused('.cm-editor')));
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await shoot(page, 'shortcuts-light');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Past expressions' }).first().click();
  await page.getByRole('menuitem', { name: 'up or scrape_duration_seconds' }).waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('menuitem').count(), 0);
  assert.deepEqual(faults, []);
  await close();
}

async function refresh({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/query?g0.expr=up&g0.range_input=10m&refresh=1s`);
  await graphDrawn(page);
  let asked = 0;
  page.on('request', (request) => {
    if (request.url().includes('/query_range')) asked += 1;
  });
  let gone = 0;
  for (let look = 0; look < 50; look += 1) {
    if ((await page.locator('.u-wrap > canvas').count()) !== 1) gone += 1;
    await page.waitForTimeout(60);
  }
  assert.ok(asked >= 2, `asked ${asked} times in three seconds`);
  assert.equal(gone, 0, 'the graph stays while the next answer is on its way');
  await page.getByLabel('Refresh every').selectOption('0');
  await paramsWhen(page, (p) => !p.has('refresh'));
  assert.deepEqual(faults, []);
  await close();
}

async function kinds({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  const histogram = {
    count: '12',
    sum: '34.5',
    buckets: [
      [0, '0.5', '1', '4'],
      [0, '1', '2', '8'],
    ],
  };
  const answers = {
    scalar: { resultType: 'scalar', result: [1, '42.5'] },
    string: { resultType: 'string', result: [1, 'words'] },
    native: { resultType: 'vector', result: [{ metric: { a: 'b' }, histogram: [1, histogram] }] },
    range: {
      resultType: 'matrix',
      result: [
        { metric: { __name__: 'm' }, values: [[1, '7']] },
        { metric: { __name__: 'h' }, histograms: [[1, histogram]] },
      ],
    },
    nothing: { resultType: 'vector', result: [] },
  };
  await page.route('**/api/v1/query?*', (route) => {
    const data = answers[new URL(route.request().url()).searchParams.get('query')];
    return route.fulfill({ json: { status: 'success', data } });
  });
  const panels = Object.keys(answers).map(
    (expr, index) => `g${index}.expr=${expr}&g${index}.tab=1`,
  );
  await page.goto(`${url}/query?${panels.join('&')}`);
  const texts = ['scalar42.5', 'stringwords', 'count 12, sum 34.5', '7', 'No series'];
  for (const [index, text] of texts.entries()) {
    const panel = page.locator('.panel').nth(index);
    await panel.locator('.evaluated').waitFor();
    const shown = await panel.locator('.table-view').textContent();
    assert.ok(shown.includes(text), `${shown} has no ${text}`);
  }
  assert.equal(await page.locator('.histogram-bars').count(), 2);
  assert.match(
    await page.locator('.histogram-bars i').nth(1).getAttribute('title'),
    /^\(1, 2\]: 8$/,
  );
  assert.deepEqual(faults, []);
  await close();
}
