// What a person sees on the status page, in a browser, beside what `stats` says.
'use strict';

const { execFileSync } = require('child_process');
const net = require('net');
const { chromium } = require('playwright-core');

const [port, admin, guarded, store, cache] = process.argv.slice(2);
const open = `http://127.0.0.1:${admin}`;
const SHOTS = process.env.LARDER_SCREENSHOTS;

async function check(name, condition) {
  let holds = false;
  let why = '';
  try {
    holds = await condition();
  } catch (error) {
    why = ` (${error.message.split('\n')[0]})`;
  }
  console.log(`${holds ? 'ok' : 'not ok'} - ${name}${why}`);
}

// Sends lines to the server and returns its answer, up to the line that ends it.
function send(text, last = /(STORED|END|HD|MN)\r\n$/, to = port) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(to), '127.0.0.1');
    let answer = '';
    socket.setTimeout(10000, () => socket.destroy(new Error(`no answer to ${text.slice(0, 40)}`)));
    socket.on('error', reject);
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1');
      if (last.test(answer)) socket.end(() => resolve(answer));
    });
    socket.write(Buffer.from(text, 'latin1'));
  });
}

async function stats(section = '', of = port) {
  const lines = (await send(`stats${section}\r\n`, undefined, of)).split('\r\n');
  return Object.fromEntries(lines.map((line) => line.split(' ').slice(1, 3)));
}

const tile = (page, name) => page.locator(`.tile[data-name="${name}"] .value`).innerText();

// Returns the cells of the row of a table that begins with a text.
async function row(page, table, first) {
  const rows = await page.locator(`#${table} tr`).all();
  for (const line of rows) {
    const cells = await line.locator('td').allInnerTexts();
    if (cells[0] === first) return cells;
  }
  return [];
}

// Waits until a condition holds, for some updates of the page.
async function until(condition) {
  for (let i = 0; i < 40; i++) {
    if (await condition()) return true;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  return false;
}

async function values(page) {
  await send(Array.from({ length: 40 }, (_, i) => `set v:${i} 0 0 5 noreply\r\nvalue\r\n`).join('')
    + 'mn\r\n');
  await send('get v:0 v:1 v:2 absent\r\n');
  await check('the page shows', async () => until(async () => (await tile(page, 'items')) === '40'));
  const now = await stats();
  await check('gets are those of stats', async () => until(async () =>
    (await row(page, 'requests', 'get'))[3] === now.cmd_get));
  await check('sets are those of stats', async () =>
    (await row(page, 'requests', 'set'))[3] === now.cmd_set);
  await check('items are those of stats', async () => (await tile(page, 'items')) === now.curr_items);
  await check('evictions are those of stats', async () =>
    (await row(page, 'evictions', 'evicted'))[2] === now.evictions);
  await check('the limit of connections is that of stats', async () =>
    (await row(page, 'connections', 'open'))[1].endsWith(`of ${now.max_connections}`));
  await check('it is the same process', async () =>
    (await page.locator('#version').innerText()).includes(`process ${now.pid}`));
  await check('without a disk tier there is no section of it', async () =>
    page.locator('#tier-section').isHidden());
  await check('the configuration names sources', async () =>
    (await row(page, 'configuration', 'memory_limit')).slice(1, 3).join() === '256,command line');
  await send('set one:more 0 0 1\r\nx\r\n');
  await check('a new item appears by itself', async () =>
    until(async () => (await tile(page, 'items')) === '41'));
  await check('a cell of the map says what it holds', async () => {
    await page.locator('#map').hover({ position: { x: 3, y: 3 } });
    return (await page.locator('#cell').innerText()).startsWith('Segment 0: 1 index');
  });
}

// Keys are foreign bytes. The page shows each as text in which every byte can be seen.
async function keysOfOthers(page) {
  const shown = {
    '<img/src=x/onerror=pwned=1>': '<img/src=x/onerror=pwned=1>',
    '\x1b]0;owned\x07': '\\x1b]0;owned\\x07',
    'two\nlines': 'two\\x0alines',
    '\xff\xfe<b>': '\\xff\\xfe<b>',
  };
  for (const key of Object.keys(shown)) {
    const encoded = Buffer.from(key, 'latin1').toString('base64');
    await send(`ms ${encoded} 1 b\r\nv\r\n` + `mg ${encoded} b v q\r\n`.repeat(3000) + 'mn\r\n',
      /MN\r\n$/);
  }
  for (const [key, text] of Object.entries(shown)) {
    await check(`hot key ${JSON.stringify(key)} is text`, async () => until(async () =>
      (await page.locator('#hot-rate .key').allInnerTexts()).includes(text)));
  }
  await check('no key is markup', async () => page.evaluate(() =>
    typeof pwned === 'undefined' && document.title === 'Larder' &&
    document.querySelectorAll('table img, table b').length === 0));
}

async function looks(browser) {
  const backs = [];
  for (const [name, colorScheme, width] of
    [['light', 'light', 1200], ['dark', 'dark', 1200], ['narrow', 'light', 400]]) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
    await page.goto(open);
    await page.locator('.tile').first().waitFor();
    backs.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    await check(`${name}: nothing is wider than the window`, async () =>
      (await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: true });
    await page.close();
  }
  await check('light and dark differ', async () => backs[0] !== backs[1] && backs[0] === backs[2]);
}

async function login(browser) {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${guarded}`);
  await check('without a token the page asks for one', async () => {
    await page.locator('#login').waitFor();
    return page.locator('#main').isHidden();
  });
  const type = async (token) => {
    await page.locator('#token').fill(token);
    await page.locator('#login button').click();
  };
  await type('wrong'.repeat(8));
  await check('a wrong token shows nothing', async () => {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    return await page.locator('#login').isVisible() && await page.locator('#main').isHidden();
  });
  await type(process.env.LARDER_TOKEN);
  await check('a token shows the page', async () => {
    await page.locator('.tile').first().waitFor();
    return page.locator('#login').isHidden();
  });
  await check('the token is kept nowhere', async () => page.evaluate(() =>
    document.cookie === '' && localStorage.length === 0 && sessionStorage.length === 0 &&
    !location.href.includes('?') && document.getElementById('token').value === ''));
  await page.close();
}

// A cached page is foreign bytes: opened in the browser it is saved, not run.
async function valuesOfOthers(browser) {
  const html = "<script>fetch('/api/v1/clear', { method: 'POST' })</script>";
  await send(`set page.html 0 0 ${html.length}\r\n${html}\r\n`);
  const page = await browser.newPage();
  const saved = page.waitForEvent('download', { timeout: 10000 });
  await page.goto(`${open}/api/v1/cache/page.html`).catch(() => {});
  await check('a cached page is saved', async () =>
    (await saved).suggestedFilename().startsWith('page'));
  await check('a cached page does not run', async () => {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return (await send('mg page.html\r\n', /\r\n$/)).startsWith('HD');
  });
  await page.close();
}

// The section of a disk tier: its numbers, then its failure, which a limit on the length of files
// provokes.
async function disk(browser, mode, of) {
  const [wire, listener, process] = of.split(' ');
  const fill = () => send(Array.from({ length: 9000 }, (_, i) =>
    `set disk:${i} 0 0 1000 noreply\r\n${'v'.repeat(1000)}\r\n`).join('') + 'mn\r\n',
  /MN\r\n$/, wire);
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  await page.goto(`http://127.0.0.1:${listener}`);
  await fill();
  const promise = mode === 'store' ? 'durability sync' : 'a crash empties it';
  await check(`${mode}: the page says what the directory promises`, async () => until(async () => {
    const words = await page.locator('#tier-words').innerText();
    return words.startsWith(`${mode}: `) && words.includes(promise);
  }));
  await check(`${mode}: items are those of stats`, async () => until(async () => {
    const now = await stats(' larder', wire);
    const items = Number(now.tier_items);
    const shown = (await row(page, 'tier-space', 'items'))[1];
    return items > 1000 && now.tier_dirty_bytes === '0' && shown === String(items);
  }));
  await check(`${mode}: syncs are those of stats`, async () => until(async () => {
    const before = (await stats(' larder', wire)).tier_syncs;
    return (await row(page, 'tier-work', 'syncs'))[2] === before;
  }));
  await check(`${mode}: a disk that works has no trouble`, async () =>
    page.locator('#tier-trouble').isHidden());
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${mode}.png`, fullPage: true });
  execFileSync('prlimit', ['--pid', process, '--fsize=4096']);
  await check(`${mode}: a failed write is shown with its reason`, async () => until(async () => {
    await fill();
    return (await page.locator('#tier-trouble').innerText()).startsWith(
      'The disk has failed: cannot write ');
  }));
  await check(`${mode}: the badge says whether the server is ready`, async () => until(async () =>
    (await page.locator('#state').innerText()).startsWith(
      mode === 'store' ? 'the disk has failed: cannot write ' : 'serving')));
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${mode}-failed.png`, fullPage: true });
  await page.close();
}

async function main() {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  const complaints = [];
  page.on('console', (message) => complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(open);
  await values(page);
  await keysOfOthers(page);
  await check('the browser has no complaints', async () => {
    if (complaints.length > 0) throw new Error(complaints[0]);
    return true;
  });
  await page.close();
  await looks(browser);
  await login(browser);
  await valuesOfOthers(browser);
  await disk(browser, 'store', store);
  await disk(browser, 'cache', cache);
  await browser.close();
  console.log('done');
}

main().catch((error) => console.log(`not ok - the suite ends early (${error.stack})`));
