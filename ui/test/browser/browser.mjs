// Chromium and its pages. Every page is watched: an error on the console, an uncaught exception or a
// request to another origin fails the case it happens in.
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const out = join(dirname(fileURLToPath(import.meta.url)), '..', 'out');

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export function launch() {
  mkdirSync(out, { recursive: true });
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: FLAGS,
  });
}

/**
 * A page in a context of its own. `faults` collects what must not happen; a case that provokes failed
 * requests on purpose allows the browser's own line about them by `failedRequests`.
 */
export async function openPage(browser, url, options = {}) {
  const { failedRequests = false, ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...rest });
  const page = await context.newPage();
  // Long enough for a machine that builds something else meanwhile.
  page.setDefaultTimeout(60_000);
  const faults = [];
  const origin = new URL(url).origin;
  page.on('console', (message) => {
    if (message.type() !== 'error') return;
    const text = message.text();
    if (failedRequests && /^Failed to load resource/.test(text)) return;
    faults.push(`console: ${text}`);
  });
  page.on('pageerror', (error) => faults.push(`exception: ${error.stack ?? error.message}`));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`foreign request: ${request.url()}`);
  });
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { page, faults, close: () => context.close() };
}

/** Keeps a picture for people to look at. */
export function shoot(page, name) {
  return page.screenshot({ path: join(out, `${name}.png`) });
}

/** How many pixels of a panel's graph have a series' colour: clearly coloured, not grey. */
export function coloredPixels(page, panel = 0) {
  return countColored(page.locator('.panel').nth(panel).locator('.u-wrap > canvas'), 60);
}

/** Pixels of a canvas whose channels are further apart than `apart`. */
function countColored(canvas, apart) {
  return canvas.evaluate((element, least) => {
    const { data } = element.getContext('2d').getImageData(0, 0, element.width, element.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      const [r, g, b, a] = data.subarray(at, at + 4);
      if (a > 40 && Math.max(r, g, b) - Math.min(r, g, b) > least) count += 1;
    }
    return count;
  }, apart);
}

/** Waits until a panel's graph shows series. */
export function graphDrawn(page, panel = 0) {
  return seriesDrawn(page.locator('.panel').nth(panel).locator('.u-wrap > canvas'));
}

/** Waits until the canvas of a graph shows series. */
export function seriesDrawn(canvas) {
  return drawn(canvas, 60, 100);
}

/** Waits until the flame graph shows calls, whose colours are paler than those of series. */
export function flameDrawn(page) {
  return drawn(page.locator('.flame canvas'), 20, 2000);
}

async function drawn(canvas, apart, least) {
  await canvas.waitFor();
  for (let tries = 0; tries < 600; tries += 1) {
    const count = await countColored(canvas, apart);
    if (count > least) return count;
    await canvas.page().waitForTimeout(50);
  }
  throw new Error('the canvas stays empty');
}

/** Waits until the address fulfils a condition, and gives its parameters. */
export async function paramsWhen(page, condition) {
  for (let tries = 0; tries < 600; tries += 1) {
    const params = new URL(page.url()).searchParams;
    if (condition(params)) return params;
    await page.waitForTimeout(50);
  }
  throw new Error(`the address stays ${page.url()}`);
}
