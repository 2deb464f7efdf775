// The page of keys. It shows one page of the list at a time, and the beginning of a value on
// demand.

const ROWS = 50;
// A page of the API may be short or empty, with a cursor nevertheless. This many are fetched for
// one page of the list before the user is asked whether to continue.
const FETCHES_MAX = 40;
const PREVIEW_BYTES = 4096;
const RETRY_MS = 2000;

let role = "probe";
let prefix = new Uint8Array();
// The cursors of the pages so far, the current one last; null is the beginning.
let cursors = [null];
let following = null;
let fetching = null;

// Returns the bytes of a text that uses the escapes of the list.
function bytesOf(text) {
  const encoder = new TextEncoder();
  const parts = [];
  const escapes = /\\\\|\\x([0-9a-fA-F]{2})|\\u\{([0-9a-fA-F]{1,6})\}/g;
  let from = 0;
  for (const match of text.matchAll(escapes)) {
    parts.push(encoder.encode(text.slice(from, match.index)));
    if (match[1] !== undefined) parts.push(escapedByte(parseInt(match[1], 16)));
    else if (match[2] !== undefined) parts.push(encoder.encode(character(match)));
    else parts.push(encoder.encode("\\"));
    from = match.index + match[0].length;
  }
  parts.push(encoder.encode(text.slice(from)));
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

const escapedByte = (byte) => Uint8Array.of(byte);

function character(match) {
  const code = parseInt(match[2], 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : match[0];
}

const base64 = (found) => btoa(String.fromCharCode(...found));

const keyBytes = (row) => row.key !== undefined ? new TextEncoder().encode(row.key)
  : Uint8Array.from(atob(row.key_base64), (c) => c.charCodeAt(0));

// Returns the path of an item. Its key is in base64, because a browser would shorten a path such as
// `..`.
const pathOf = (row) => "/api/v1/item/" +
  base64(keyBytes(row)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

// Fetches one page of the list: rows until the page is full, the list ends, or the maximum number
// of requests is reached.
async function fetchPage(cursor, signal, onProgress) {
  const page = { rows: [], cursor, fetches: 0, unreadable: 0 };
  do {
    const query = new URLSearchParams({ limit: ROWS - page.rows.length });
    if (prefix.length > 0) query.set("prefix_base64", base64(prefix));
    if (page.cursor !== null) query.set("cursor", page.cursor);
    const found = await ask("/api/v1/keys?" + query, { signal });
    page.rows.push(...found.keys);
    page.unreadable += found.unreadable ?? 0;
    page.cursor = found.cursor;
    page.fetches += 1;
    onProgress(page);
  } while (page.cursor !== null && page.rows.length < ROWS && page.fetches < FETCHES_MAX);
  return page;
}

const items = (number) => number === 1 ? "1 key" : `${count(number)} keys`;

// Returns a summary of the list, including whether more may follow.
function listWords(page) {
  const which = cursors.length > 1 ? `Page ${count(cursors.length)}: ` : "";
  const found = page.rows.length > 0 ? items(page.rows.length) : "no key";
  const rest = page.cursor === null ? (cursors.length > 1 ? ", the last page" : "")
    : page.rows.length < ROWS ? " so far; a part of the cache is not searched yet" : "";
  const lost = page.unreadable > 0 ? `; ${count(page.unreadable)} items on the disk unreadable` : "";
  return which + found + rest + lost + ".";
}

async function showPage() {
  fetching?.abort();
  const mine = fetching = new AbortController();
  setBusy(true);
  const shown = cursors.at(-1);
  try {
    const page = await fetchPage(shown, mine.signal, (so) => {
      $("list-words").textContent = `Searching; ${items(so.rows.length)} so far …`;
    });
    following = page.cursor;
    showRows(page.rows);
    badge(role === "full" ? "may read and delete" : "may read", "good");
    $("list-words").textContent = listWords(page);
    $("next").textContent = page.rows.length < ROWS && following !== null ? "Search on"
      : "Next page";
  } catch (error) {
    if (mine !== fetching) return;
    following = null;
    $("list").replaceChildren();
    if (mine.signal.aborted) $("list-words").textContent = "Stopped.";
    else failed(error);
    // The cache is being opened.
    if (error.status === 503) setTimeout(() => mine === fetching && showPage(), RETRY_MS);
  } finally {
    if (mine === fetching) setBusy(false);
  }
}

function setBusy(isBusy) {
  $("stop").hidden = !isBusy;
  $("next").disabled = isBusy || following === null;
  $("back").disabled = $("first").disabled = isBusy || cursors.length === 1;
  $("list").setAttribute("aria-busy", String(isBusy));
}

// Shows the reason for a missing list. After a restart of the server its cursors are invalid.
function failed(error) {
  if (error.status === 401) return refused(error);
  const isOldCursor = error.status === 400 && cursors.length > 1;
  if (isOldCursor) {
    cursors = [null];
    $("list-words").textContent = "The server was restarted: search again.";
    return;
  }
  $("list-words").textContent = error.status ? `The server answers: ${error.message}.`
    : "The server does not answer.";
  badge(error.status ? "refused" : "no answer", error.status ? "warn" : "bad");
}

function refused(error) {
  askForToken(error, "A token of the role read or full shows the keys; full also deletes.");
}

function showRows(rows) {
  if (rows.length === 0) return $("list").replaceChildren();
  fill("list", ["key", right("size"), right("last use"), right("expires"), ["", "acts"]], []);
  $("list").querySelector("thead .acts").replaceWith(make("td"));
  $("list").querySelector("tbody").append(...rows.flatMap(rowsOf));
}

// Returns the row of an item, and the row for its value below it.
function rowsOf(item) {
  const line = make("tr");
  const key = make("th", undefined, "key");
  key.scope = "row";
  const opener = make("button", keyText(item), "opener");
  opener.type = "button";
  opener.setAttribute("aria-expanded", "false");
  key.append(opener);
  const cell = (words, label) => {
    const made = make("td", words, "number");
    made.dataset.label = label;
    return made;
  };
  const acts = make("td", undefined, "acts");
  if (role === "full") acts.append(deleteButton(item, line));
  const idle = (item.idle_secs < 60 ? "< 1 min" : duration(item.idle_secs)) + " ago";
  const ttl = item.ttl_secs === null ? "never" : "in " + duration(item.ttl_secs);
  line.append(key, cell(bytes(item.bytes), "size"), cell(idle, "last use"),
    cell(ttl, "expires"), acts);
  const below = make("tr", undefined, "below");
  below.hidden = true;
  const place = make("td");
  place.colSpan = 5;
  below.append(place);
  opener.addEventListener("click", () => {
    below.hidden = !below.hidden;
    opener.setAttribute("aria-expanded", String(!below.hidden));
    if (!below.hidden) showValue(item, place);
  });
  return [line, below];
}

function deleteButton(item, line) {
  const button = make("button", "Delete", "danger");
  button.type = "button";
  button.setAttribute("aria-label", "Delete " + keyText(item));
  button.addEventListener("click", async () => {
    if (!await isConfirmed(keyText(item))) return;
    button.disabled = true;
    try {
      await send(pathOf(item), { method: "DELETE" });
      gone(line, "deleted");
    } catch (error) {
      if (error.status === 404) return gone(line, "was gone already");
      button.disabled = false;
      $("list-words").textContent = `Not deleted. The server answers: ${error.message || error}.`;
    }
  });
  return button;
}

// Marks the row of an item that no longer exists.
function gone(line, words) {
  line.className = "gone";
  line.nextSibling.hidden = true;
  line.querySelector(".opener").disabled = true;
  line.querySelector(".acts").textContent = words;
}

function isConfirmed(text) {
  const dialog = $("confirm");
  $("confirm-key").textContent = text;
  dialog.returnValue = "keep";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "delete"),
      { once: true });
  });
}

// Shows the beginning of a value, as text in which every character is visible, or as hexadecimal
// bytes.
async function showValue(item, place) {
  place.replaceChildren(make("p", "…", "note"));
  try {
    const found = await ask(`${pathOf(item)}?bytes=${PREVIEW_BYTES}`);
    const isText = found.value !== undefined;
    const shown = found.value_bytes < found.bytes
      ? `The first ${bytes(found.value_bytes)} of ${bytes(found.bytes)}` : bytes(found.bytes);
    const form = found.bytes === 0 ? "an empty value"
      : isText ? "text" : "binary, in hexadecimal";
    const words = make("p", `${shown}, ${form}; flags ${found.flags}.`, "note");
    const value = make("pre", isText ? valueText(found.value) : hexadecimal(found.value_base64));
    value.tabIndex = 0;
    value.setAttribute("aria-label", "value");
    place.replaceChildren(words, ...(found.bytes > 0 ? [value] : []));
  } catch (error) {
    const words = error.status === 404 ? "The item is gone." : error.status
      ? `The server answers: ${error.message}.` : "The server does not answer.";
    place.replaceChildren(make("p", words, "note"));
  }
}

// Lines, tabs and spaces are shown as such. Every other character is visible.
const valueText = (text) => visibleText(text, (c) =>
  c === "\n" || c === "\t" || c === " " || isVisibleLetter(c));

function hexadecimal(encoded) {
  const found = Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  const lines = [];
  for (let from = 0; from < found.length; from += 16) {
    const part = [...found.slice(from, from + 16)];
    const digits = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = part.map((byte) =>
      byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".").join("");
    lines.push(`${from.toString(16).padStart(4, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  prefix = bytesOf($("prefix").value);
  cursors = [null];
  showPage();
});
$("first").addEventListener("click", () => {
  cursors = [null];
  showPage();
});
$("back").addEventListener("click", () => {
  cursors.pop();
  showPage();
});
$("next").addEventListener("click", () => {
  cursors.push(following);
  showPage();
});
$("stop").addEventListener("click", () => fetching?.abort());

async function begin() {
  try {
    role = (await ask("/api/v1/role")).role;
    // The error message tells whether a token would help.
    if (role === "probe") await ask("/api/v1/keys?limit=1");
  } catch (error) {
    if (error.status === 401 || error.status === 403) return refused(error);
    badge(error.status ? error.message : "no answer", "bad");
    return setTimeout(begin, RETRY_MS);
  }
  $("login").hidden = true;
  $("main").hidden = false;
  $("version").textContent = `at ${location.host}`;
  showPage();
}
begin();
