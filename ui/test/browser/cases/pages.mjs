// Targets, discovery, status, themes, small screens, prefixes.
import assert from 'node:assert/strict';
import { serve } from '../../../scripts/serve.mjs';
import { graphDrawn, openPage, paramsWhen, shoot } from '../browser.mjs';

export const cases = [
  { name: 'targets with states, figures and discovered labels', run: targets },
  { name: 'discovery shows what relabelling made of targets', run: discovery },
  { name: 'status pages', run: status },
  { name: 'both themes, chosen and kept', run: themes },
  { name: 'a phone shows every page without scrolling sideways', run: phone },
  { name: 'links and the history move between pages', run: navigation },
  { name: 'under a prefix and a strict content policy', run: prefix },
];

async function targets({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/targets`);
  await page.locator('.state.up').first().waitFor();
  await page.locator('.pool-count').first().waitFor();
  assert.match(await page.locator('.pool-count').first().textContent(), /^\d+ \/ \d+ up$/);
  const row = page.locator('tr.target.up').first();
  await page.waitForFunction(() => /ago/.test(document.querySelector('tr.target.up').textContent));
  assert.match(await row.textContent(), /\d+ (ms|µs)|< 1 ms|\d s/);
  const samples = await row.locator('td').nth(6).textContent();
  assert.match(samples, /^\d/, `samples: ${samples}`);
  await row.getByRole('button', { name: /Labels of/ }).click();
  await page.getByText('Discovered labels, before relabelling').waitFor();
  await page.locator('.label-table').getByText('__address__').waitFor();
  await page.locator('.label-table').getByText('__metrics_path__').waitFor();
  await shoot(page, 'targets-light');
  const count = await page.locator('tr.target').count();
  await page.keyboard.press('/');
  await page.keyboard.type('no target has this');
  await page.getByText('No target matches the filter').waitFor();
  await paramsWhen(page, (p) => p.get('search') === 'no target has this');
  await page.getByRole('searchbox').fill('');
  await page.getByRole('button', { name: /^Up/ }).click();
  await paramsWhen(page, (p) => p.get('health') === 'up');
  assert.equal(await page.locator('tr.target.down').count(), 0);
  await page.getByRole('button', { name: /^All/ }).click();
  assert.equal(await page.locator('tr.target').count(), count);
  const pool = page.locator('.pool-head').first();
  await pool.click();
  assert.equal(await pool.getAttribute('aria-expanded'), 'false');
  assert.deepEqual(faults, []);
  await close();
}

async function discovery({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { colorScheme: 'dark' });
  await page.goto(`${url}/service-discovery`);
  const first = page.locator('.found-head').first();
  await first.click();
  await page.getByText('Discovered labels, before relabelling').waitFor();
  await page.locator('.label-table').getByText('__address__').first().waitFor();
  await shoot(page, 'discovery-dark');
  assert.deepEqual(faults, []);
  await close();
}

async function status({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/status`);
  await page.getByText('Started').waitFor();
  await shoot(page, 'status-light');
  const pages = page.getByRole('navigation', { name: 'Status' });
  await pages.getByRole('link', { name: 'Flags' }).click();
  await page.getByText('--storage.tsdb.path').waitFor();
  await page.getByRole('searchbox').fill('listen-address');
  assert.equal(await page.locator('.flags tbody tr').count(), 1);
  await pages.getByRole('link', { name: 'Configuration' }).click();
  await page.locator('.yaml, .page > .faint').first().waitFor();
  await pages.getByRole('link', { name: 'Head cardinality' }).click();
  const metric = page.locator('.ranking').first().locator('li a').first();
  await metric.waitFor();
  await shoot(page, 'cardinality-light');
  const name = await metric.textContent();
  await metric.click();
  await paramsWhen(page, (p) => p.get('g0.expr') === name && p.get('g0.tab') === '1');
  await page.locator('.result-row').first().waitFor();
  assert.deepEqual(faults, []);
  await close();
}

async function themes({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { colorScheme: 'dark' });
  await page.goto(`${url}/query?g0.expr=scrape_duration_seconds&g0.range_input=10m`);
  await graphDrawn(page);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const bright = async () => Math.min(...(await ground()).match(/\d+/g).slice(0, 3).map(Number));
  assert.ok((await bright()) < 60, await ground());
  await shoot(page, 'graph-dark');
  await page.getByRole('button', { name: /^Theme: system/ }).click();
  assert.ok((await bright()) > 200, await ground());
  await page.reload();
  await graphDrawn(page);
  assert.ok((await bright()) > 200, 'the choice is kept');
  await page.getByRole('button', { name: /^Theme: light/ }).click();
  assert.ok((await bright()) < 60, await ground());
  await page.getByRole('button', { name: /^Time zone: Local/ }).click();
  await page.getByRole('button', { name: /^Time zone: UTC/ }).waitFor();
  assert.deepEqual(faults, []);
  await close();
}

async function phone({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, {
    viewport: { width: 375, height: 780 },
    deviceScaleFactor: 2,
    hasTouch: true,
  });
  const places = ['query?g0.expr=scrape_duration_seconds&g0.range_input=10m', 'query', 'targets'];
  for (const place of [
    ...places,
    'service-discovery',
    'cost',
    'cost?type=allocated',
    'status',
    'tsdb-status',
    'flags',
  ]) {
    await page.goto(`${url}/${place}`);
    await page
      .locator('.panel, .pool, .cost-figures, .flame, .facts, .ranking, .flags')
      .first()
      .waitFor();
    if (place.includes('expr')) await graphDrawn(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 375, `${place} is ${wide} wide`);
    await shoot(page, `phone-${place.replace(/\?.*/, '-graph')}`);
  }
  assert.deepEqual(faults, []);
  await close();
}

async function navigation({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { failedRequests: true });
  await page.goto(`${url}/query`);
  const nav = page.getByRole('navigation', { name: 'Pages' });
  await nav.getByRole('link', { name: 'Targets' }).click();
  await page.getByRole('heading', { name: 'Targets' }).waitFor();
  assert.equal(new URL(page.url()).pathname, new URL(`${url}/targets`).pathname);
  await nav.getByRole('link', { name: 'Query' }).click();
  await page.locator('.cm-content').waitFor();
  await page.goBack();
  await page.getByRole('heading', { name: 'Targets' }).waitFor();
  assert.equal(
    await nav.getByRole('link', { name: 'Targets' }).getAttribute('aria-current'),
    'page',
  );
  assert.deepEqual(faults, []);
  await close();
}

/** A proxy of our own in front of the server, which adds both. */
async function prefix({ browser, url }) {
  const proxy = await serve({ prefix: '/some/where/', upstream: url });
  const origin = `http://127.0.0.1:${proxy.address().port}`;
  const { page, faults, close } = await openPage(browser, origin);
  await page.goto(`${origin}/some/where/query?g0.expr=up&g0.range_input=10m`);
  await graphDrawn(page);
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('scrape_dur', { delay: 25 });
  await page
    .locator('.cm-tooltip-autocomplete')
    .getByText('scrape_duration_seconds')
    .first()
    .waitFor();
  await page.keyboard.press('Escape');
  for (const name of ['Targets', 'Discovery', 'Cost', 'Status', 'Query']) {
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name });
    await link.click();
    await page.locator('.pool, .found, .cost-figures, .facts, .panel').first().waitFor();
    assert.ok(new URL(page.url()).pathname.startsWith('/some/where/'), page.url());
    assert.equal(await page.getByRole('alert').count(), 0);
  }
  await page.reload();
  await page.locator('.cm-content').waitFor();
  assert.deepEqual(faults, []);
  await close();
  proxy.closeAllConnections();
  proxy.close();
}
