// Compares the pages of the admin listener, as a browser shows them, with the rows of `stats`.
'use strict';

const { execFileSync } = require('child_process');
const net = require('net');
const { chromium } = require('playwright-core');

const [port, admin, guarded, store, cache, hidden] = process.argv.slice(2);
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

// Returns the cells of the table row that begins with a text.
async function row(page, table, first) {
  const rows = await page.locator(`#${table} tr`).all();
  for (const line of rows) {
    const cells = await line.locator('th, td').allInnerTexts();
    if (cells[0] === first) return cells;
  }
  return [];
}

// Returns the exact number of a cell that shows a rounded number.
async function exact(page, table, first, column) {
  const line = page.locator(`#${table} tr`, { has: page.locator('th', { hasText: first }) });
  return line.first().locator('th, td').nth(column).getAttribute('title');
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
    (await exact(page, 'requests', /^get$/, 3)) === now.cmd_get));
  await check('sets are those of stats', async () =>
    (await exact(page, 'requests', /^set$/, 3)) === now.cmd_set);
  await check('items are those of stats', async () => (await tile(page, 'items')) === now.curr_items);
  await check('evictions are those of stats', async () =>
    (await exact(page, 'evictions', /^evicted$/, 2)) === now.evictions);
  await check('the limit of connections is that of stats', async () =>
    (await row(page, 'connections', 'open'))[1].endsWith(`of ${now.max_connections}`));
  await check('it is the same process', async () =>
    (await page.locator('#version').innerText()).includes(`process ${now.pid}`));
  await check('without a disk tier there is no section of it', async () =>
    page.locator('#tier-section').isHidden());
  await check('slow requests are shown', async () => until(async () =>
    (await page.locator('#slow tbody tr').count()) > 0));
  await check('the configuration names sources', async () =>
    (await row(page, 'configuration', 'memory_limit')).slice(1, 3).join() === '256 MiB,command line');
  await send('set one:more 0 0 1\r\nx\r\n');
  await check('a new item appears by itself', async () =>
    until(async () => (await tile(page, 'items')) === '41'));
  await check('a cell of the map says what it holds', async () => {
    await page.locator('#map').hover({ position: { x: 3, y: 3 } });
    return (await page.locator('#cell').innerText()).startsWith('Segment 0: 1 index');
  });
}

// Keys are untrusted bytes. The page shows each key as text in which every byte is visible.
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
  for (const [key, text] of Object.entries(shown)) {
    const encoded = Buffer.from(key, 'latin1').toString('base64');
    await send(`mg ${encoded} b v\r\n`, /\r\n$/);
    await check(`key ${JSON.stringify(key)} of a slow request is text`, async () => until(async () =>
      (await page.locator('#slow .key').first().innerText()) === text));
  }
  await check('at most ten slow requests are shown', async () => until(async () => {
    await send('mn\r\n');
    return (await page.locator('#slow tbody tr').count()) === 10;
  }));
  await check('the number of slow requests is that of stats', async () => until(async () => {
    // The request itself counts after its response.
    const now = Number((await stats(' larder')).slow_requests) + 1;
    await new Promise((resolve) => setTimeout(resolve, 1500));
    return (await page.locator('#slow-words').innerText()).includes(
      `: ${await page.evaluate((number) => count(number), now)} since the start`);
  }));
  await check('no key is markup', async () => page.evaluate(() =>
    typeof pwned === 'undefined' && document.title === 'Larder' &&
    document.querySelectorAll('table img, table b').length === 0));
}

// All counts have the same format: less than 10,000, or at most four digits and a letter.
async function past(page) {
  await check('a server that has just started shows minutes', async () =>
    (await page.locator('.times span').first().innerText()) === '−5 min');
  await page.locator('input[value=hour]').check();
  await check('the charts have scales with units and times', async () => {
    const bytes = page.locator('.tile[data-name="item_bytes"]');
    const scale = await bytes.locator('.scale span').allInnerTexts();
    const times = await bytes.locator('.times span').allInnerTexts();
    return scale.length === 3 && scale.every((mark) => /^[\d.]+ ([KMG]i)?B$/.test(mark)) &&
      times.join() === '−60 min,−30 min,now';
  });
  await check('a chart continues live', async () => until(async () =>
    (await page.locator('.tile[data-name="items"] .curve').count()) > 0));
  await check('a reload shows the past of the server', async () => {
    await page.reload();
    return until(async () => (await page.evaluate(() => series.items?.past.length)) > 0);
  });
  await page.locator('input[value=hour]').check();
  await check('pointing at a chart shows a value and a time', async () => until(async () => {
    await page.locator('.tile[data-name="items"] .plot').hover({ position: { x: 1, y: 5 } });
    const words = await page.locator('.tile[data-name="items"] .more').innerText();
    return words.startsWith('unknown at ');
  }));
  await page.mouse.move(0, 0);
  await check('an unknown value is a gap, and not zero', async () => page.evaluate(() => {
    const at = (secs, v) => ({ t: performance.now() - secs * 1000, v, step: 10000 });
    const runs = runsOf([at(90, 1), at(80, 2), at(70, null), at(60, 3), at(20, 4), at(10, 5)]);
    return runs.map((run) => run.map((point) => point.v).join()).join(';') === '1,2;3;4,5';
  }));
  await check('counts are written in one way', async () => page.evaluate(() =>
    [0, 7, 0.25, 9999, 10000, 455900, 999999, 3025456, 2e10].map(count).join() ===
      '0,7,0.3,9999,10.0 k,455.9 k,1.0 M,3.0 M,20.0 G'));
}

const AXE = require('axe-core').source;

// Runs the rules of axe-core. The content security policy of the page is bypassed only for its script.
async function isAccessible(browser, address, colorScheme, prepare) {
  const context = await browser.newContext({ bypassCSP: true, colorScheme });
  const page = await context.newPage();
  await page.goto(address);
  await page.locator('#main').waitFor();
  if (prepare) await prepare(page);
  await page.evaluate(AXE);
  const found = await page.evaluate(() => axe.run());
  await context.close();
  if (found.violations.length > 0) {
    throw new Error(found.violations.map((one) =>
      `${one.id}: ${one.nodes[0].html.slice(0, 100)}`).join('; '));
  }
  return found.passes.length > 10;
}

async function looks(browser) {
  const backs = [];
  for (const [path, ready] of [['', '.tile'], ['/keys', '.opener']]) {
    for (const [name, colorScheme, width] of [['light', 'light', 1280], ['dark', 'dark', 1280],
      ['phone', 'light', 390], ['phone-dark', 'dark', 390]]) {
      const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
      await page.goto(open + path);
      await page.locator(ready).first().waitFor();
      // The latencies of requests are the widest numbers.
      if (path === '') {
        await until(async () => {
          await send('get v:0\r\n'.repeat(50) + 'mn\r\n', /MN\r\n$/);
          return (await row(page, 'latency', 'get'))[4].startsWith('≤');
        });
      }
      backs.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      await check(`${path} ${name}: nothing is wider than the window`, async () =>
        (await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
      if (SHOTS) {
        const file = `${SHOTS}/${path.slice(1) || 'status'}-${name}.png`;
        await page.screenshot({ path: file, fullPage: true });
      }
      await page.close();
    }
  }
  await check('light and dark differ', async () => backs[0] !== backs[1] && backs[0] === backs[2]);
  for (const colorScheme of ['light', 'dark']) {
    await check(`axe-core finds nothing on the status page, ${colorScheme}`, async () =>
      isAccessible(browser, open, colorScheme, (page) => page.locator('#hot-rate td').first()
        .waitFor()));
    await check(`axe-core finds nothing on the page of keys, ${colorScheme}`, async () =>
      isAccessible(browser, `${open}/keys`, colorScheme, async (page) => {
        await page.locator('.opener').first().click();
        await page.locator('.below:not([hidden]) pre').first().waitFor();
      }));
  }
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

const keysOn = (page) => page.locator('#list .opener').allInnerTexts();

// Opens the page of keys, and waits for the first list.
async function openKeys(browser, address = open, ready = '#list-words') {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.complaints = [];
  page.on('console', (message) => page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(error.message));
  await page.goto(`${address}/keys`);
  await page.locator(ready).waitFor();
  return page;
}

async function search(page, prefix) {
  await page.locator('#prefix').fill(prefix);
  await page.locator('#find').click();
  await page.locator('#stop').waitFor({ state: 'hidden' });
}

async function keyPages(browser) {
  await send(Array.from({ length: 120 }, (_, i) =>
    `set page:${i} 0 0 10 noreply\r\n${String(i).padEnd(10)}\r\n`).join('') + 'mn\r\n');
  await send('set page:ttl 5 3000 2\r\nhi\r\n');
  const page = await openKeys(browser);
  await search(page, 'page:');
  const seen = new Set();
  for (let i = 0; i < 3; i++) {
    for (const key of await keysOn(page)) seen.add(key);
    if (i < 2) {
      await page.locator('#next').click();
      await page.locator('#stop').waitFor({ state: 'hidden' });
    }
  }
  await check('three pages have all keys with the prefix', async () =>
    seen.size === 121 && [...seen].every((key) => key.startsWith('page:')));
  await check('the last page has no next page', async () =>
    page.locator('#next').isDisabled());
  await page.locator('#back').click();
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await check('one can go back', async () => (await page.locator('#list-words').innerText())
    .startsWith('Page 2: 50 keys'));
  let asked = 0;
  page.on('request', (request) => { asked += request.url().includes('/api/v1/keys?') ? 1 : 0; });
  await search(page, 'page:ttl');
  await check('a short page with a cursor is followed without a click', async () =>
    asked > 1 && (await keysOn(page)).join() === 'page:ttl');
  await check('a row has size, last use and time to live', async () => {
    const cells = await page.locator('#list tbody tr').first().locator('td').allInnerTexts();
    return cells.slice(0, 3).join() === '2 B,< 1 min ago,in 50 min';
  });
  const reads = (await stats()).cmd_get;
  await page.locator('.opener').click();
  await check('a value is shown', async () =>
    (await page.locator('.below pre').innerText()) === 'hi');
  await check('a preview does not count as a get', async () => (await stats()).cmd_get === reads);
  await check('a search without a result is named', async () => {
    await search(page, 'nothing begins like this');
    return (await page.locator('#list-words').innerText()) === 'no key.';
  });
  await page.close();
}

// Keys and values that would be markup, paths, commands, or not text.
const HOSTILE = [
  ['<img/src=x/onerror=pwned=1>', '<img/src=x/onerror=pwned=1>'],
  ['<script>pwned=1</script>', '<script>pwned=1</script>'],
  ['"><svg/onload=pwned=1>', '"><svg/onload=pwned=1>'],
  ['clear', 'clear'],
  ['..', '..'],
  ['.', '.'],
  ['../../clear', '../../clear'],
  ['%2e%2e', '%2e%2e'],
  ['a?b#c', 'a?b#c'],
  ['a\nb', 'a\\x0ab'],
  ['a\\x0ab', 'a\\\\x0ab'],
  ['\xff\xfe<b>', '\\xff\\xfe<b>'],
  [Buffer.from('right\u202eleft').toString('latin1'), 'right\\u{202e}left'],
  ['k'.repeat(250), 'k'.repeat(250)],
  ['__proto__', '__proto__'],
];

// Sends a meta command with a key of any bytes.
function meta(command, key, { value }, last) {
  const isPlain = /^[!-~]+$/.test(key);
  const name = isPlain ? key : Buffer.from(key, 'latin1').toString('base64');
  const words = [command, name, value?.length, isPlain ? undefined : 'b'];
  const line = words.filter((word) => word !== undefined).join(' ');
  return send(`${line}\r\n${value === undefined ? '' : value + '\r\n'}`, last);
}

async function hostileItems(browser) {
  const value = "<img src=x onerror=pwned=1><script>fetch('/api/v1/clear',{method:'POST'})</script>";
  for (const [key] of HOSTILE) {
    await meta('ms', key, { value }, /\r\n$/);
  }
  await send('set raw 0 0 4\r\n\xff\x00<b\r\n');
  await send(`set long 0 0 900000\r\n${'<b>'.repeat(300000)}\r\n`);
  const page = await openKeys(browser);
  for (const [key, text] of HOSTILE) {
    await search(page, text);
    const name = JSON.stringify(key).slice(0, 40);
    await check(`key ${name} is found by what is shown of it, and is text`, async () =>
      (await keysOn(page)).includes(text));
    await check(`the value of ${name} is text`, async () => {
      const opener = page.locator('.opener', { hasText: text });
      const index = (await keysOn(page)).indexOf(text);
      await (index < 0 ? opener : page.locator('.opener').nth(index)).click();
      await page.locator('.below:not([hidden]) pre').waitFor();
      return (await page.locator('.below:not([hidden]) pre').innerText()) === value;
    });
    await check(`${name} is deleted, and nothing else`, async () => {
      const before = Number((await stats()).curr_items);
      const index = (await keysOn(page)).indexOf(text);
      const line = page.locator('#list tbody tr').nth(2 * index);
      await line.locator('.danger').click();
      const asked = await page.locator('#confirm-key').innerText();
      await page.locator('#confirm .danger').click();
      await line.and(page.locator('.gone')).waitFor();
      const after = Number((await stats()).curr_items);
      return asked === text && after === before - 1 &&
        (await meta('mg', key, {}, /\r\n$/)) === 'EN\r\n';
    });
  }
  await search(page, 'raw');
  await page.locator('.opener').click();
  await check('binary values are in hexadecimal', async () => {
    await page.locator('.below pre').waitFor();
    return (await page.locator('.below pre').innerText()).startsWith('0000  ff 00 3c 62 ');
  });
  await search(page, 'long');
  await page.locator('.opener').click();
  await check('of a long value the beginning is shown', async () => {
    await page.locator('.below pre').waitFor();
    return (await page.locator('.below pre').innerText()).length === 4096 &&
      (await page.locator('.below .note').innerText()).startsWith('The first 4.0 KiB of 878.9 KiB');
  });
  await check('a deletion that is not confirmed keeps the item', async () => {
    await page.locator('#list .danger').click();
    await page.keyboard.press('Escape');
    await page.locator('#list .danger').click();
    await page.locator('#confirm button[value=keep]').click();
    return (await send('mg long\r\n', /\r\n$/)).startsWith('HD');
  });
  await check('nothing of the items ran or became markup', async () => page.evaluate(() =>
    typeof pwned === 'undefined' &&
    document.querySelectorAll('#list img, #list script, #list svg, #list b').length === 0));
  await check('the browser has no complaints about the page of keys', async () => {
    if (page.complaints.length > 0) throw new Error(page.complaints[0]);
    return true;
  });
  await page.close();
}

async function keysByRole(browser) {
  const page = await openKeys(browser, `http://127.0.0.1:${guarded}`, '#login');
  await check('without a token there are no keys', async () =>
    page.locator('#main').isHidden());
  await page.locator('#token').fill(process.env.LARDER_TOKEN);
  await page.locator('#login button').click();
  await page.locator('#list .opener').first().waitFor();
  await check('a token of the role read lists keys, without a way to delete', async () =>
    (await keysOn(page)).includes('seen') && (await page.locator('#list .danger').count()) === 0);
  await check('the token of the page of keys is kept nowhere', async () => page.evaluate(() =>
    document.cookie === '' && localStorage.length === 0 && sessionStorage.length === 0 &&
    !location.href.includes('?') && document.getElementById('token').value === ''));
  await page.close();
  const closed = await openKeys(browser, `http://127.0.0.1:${hidden}`);
  await check('with -X the page shows the reason instead of a list', async () => until(async () =>
    (await closed.locator('#list-words').innerText()).includes('the server runs with -X') &&
    (await keysOn(closed)).length === 0));
  await closed.close();
}

// A cached page is untrusted: if it is opened in the browser, the browser saves it and does not run it.
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

// The section of a disk tier: first its numbers, then its failure, which a limit on the length of files
// causes.
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
    const shown = await exact(page, 'tier-space', /^items$/, 1);
    return items > 1000 && now.tier_dirty_bytes === '0' && shown === String(items);
  }));
  await check(`${mode}: syncs are those of stats`, async () => until(async () => {
    const before = (await stats(' larder', wire)).tier_syncs;
    return (await exact(page, 'tier-work', /^syncs$/, 2)) === before;
  }));
  await check(`${mode}: without --log-slower-than there is no section of slow requests`,
    async () => page.locator('#slow-section').isHidden());
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
  await past(page);
  await keysOfOthers(page);
  await check('the browser has no complaints', async () => {
    if (complaints.length > 0) throw new Error(complaints[0]);
    return true;
  });
  await page.close();
  await looks(browser);
  await login(browser);
  await keyPages(browser);
  await hostileItems(browser);
  await keysByRole(browser);
  await valuesOfOthers(browser);
  await disk(browser, 'store', store);
  await disk(browser, 'cache', cache);
  await browser.close();
  console.log('done');
}

main().catch((error) => console.log(`not ok - the suite ends early (${error.stack})`));
