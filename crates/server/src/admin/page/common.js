"use strict";

// Shared by the pages. The token is stored only in this variable, so a reload asks for it again.
let token = "";

const $ = (id) => document.getElementById(id);

// Creates an element. Untrusted text reaches the document only as text, never as markup.
function make(name, words, kind) {
  const element = document.createElement(name);
  if (words !== undefined) element.textContent = words;
  if (kind) element.className = kind;
  return element;
}

// Sends a request. Throws an error with the status if the response is an error.
async function send(path, options = {}) {
  // A form on a foreign page cannot set this header.
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = "Bearer " + token;
  const signals = [AbortSignal.timeout(10000), options.signal].filter(Boolean);
  const response = await fetch(path,
    { ...options, headers, cache: "no-store", signal: AbortSignal.any(signals) });
  if (response.ok) return response;
  const error = new Error((await response.text()).trim());
  error.status = response.status;
  throw error;
}

const ask = async (path, options) => (await send(path, options)).json();

// All counts on the pages are formatted by this function.
function count(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  for (const [unit, name] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (number >= unit * 0.99995 && (unit > 1e3 || number >= 1e4)) {
      return (number / unit).toFixed(1) + name;
    }
  }
  return number >= 10 || Number.isInteger(number) ? Math.round(number).toString()
    : number.toFixed(number < 0.095 ? 2 : 1);
}

function bytes(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  for (const [unit, name] of [[2 ** 40, " TiB"], [2 ** 30, " GiB"], [2 ** 20, " MiB"],
    [2 ** 10, " KiB"]]) {
    // A number of 1000 or more is written in the next larger unit.
    if (number >= unit * 0.9765) return (number / unit).toFixed(1) + name;
  }
  return Math.round(number) + " B";
}

function duration(secs) {
  if (secs === null || secs === undefined || !Number.isFinite(secs)) return "–";
  if (secs === 0) return "0 s";
  if (secs < 1e-3) return Math.round(secs * 1e6) + " µs";
  if (secs < 1) return (secs * 1e3).toFixed(secs < 0.01 ? 1 : 0) + " ms";
  if (secs < 120) return Math.round(secs) + " s";
  if (secs < 7200) return Math.round(secs / 60) + " min";
  if (secs < 172800) return Math.round(secs / 3600) + " h";
  return Math.round(secs / 86400) + " days";
}

function percent(part, whole) {
  return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "–";
}

// Returns a text in which every character is visible. A backslash that could be taken for the
// beginning of an escape is doubled, so that different texts look different.
function visibleText(text, isVisible) {
  const characters = Array.from(text);
  const escape = (code) => code < 256 ? "\\x" + code.toString(16).padStart(2, "0")
    : "\\u{" + code.toString(16) + "}";
  return characters.map((character, i) => {
    if (!isVisible(character)) return escape(character.codePointAt(0));
    const next = characters[i + 1];
    const isDoubled = character === "\\" && next !== undefined &&
      (next === "\\" || next === "x" || next === "u" || !isVisible(next));
    return isDoubled ? "\\\\" : character;
  }).join("");
}

const isVisibleLetter = (character) => /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u.test(character);

const hasKey = (row) => row.key !== undefined || row.key_base64 !== undefined;

// Returns a key as text in which every byte is visible.
function keyText(row) {
  return row.key !== undefined ? visibleText(row.key, isVisibleLetter)
    : visibleText(atob(row.key_base64), (c) => c > " " && c <= "~");
}

// Replaces the rows of a table. A cell is a text, an array of a text and a class, or an element.
// The first cell of a row is its name. A table without titles has only rows.
function fill(id, titles, rows) {
  const cellOf = (name, cell) => cell instanceof Node ? cell : make(name, ...[cell].flat());
  const line = (cells, name, scope) => {
    const row = make("tr");
    cells.forEach((cell, i) => {
      const element = cellOf(i === 0 ? "th" : name, cell);
      if (element.tagName === "TH") element.scope = scope;
      row.append(element);
    });
    return row;
  };
  const head = make("thead");
  if (titles) head.append(line(titles, "th", "col"));
  const body = make("tbody");
  body.append(...rows.map((cells) => line(cells, "td", "row")));
  $(id).replaceChildren(...(titles ? [head, body] : [body]));
}

const right = (text) => [text, "number"];

// Returns a cell with a count that shows all of its digits when the user points at it.
function total(number, name = "td") {
  const cell = make(name, count(number), "number");
  if (Number.isFinite(number)) cell.title = String(number);
  return cell;
}

function badge(words, kind) {
  $("state").textContent = words;
  $("state").className = "badge " + kind;
}

// Asks for a token, and shows the error of the request that was sent without one.
function askForToken(error, purpose) {
  $("main").hidden = true;
  $("login").hidden = false;
  badge(error.status === 401 ? "needs a token" : "not allowed", "warn");
  $("login-words").textContent = `The server answers: ${error.message}. ` + purpose;
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  begin();
});
