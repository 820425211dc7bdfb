// The API reference: one entry at a time, a search over the sidebar, and a console for each operation.
const docs = find("[data-docs]");
const contents = find(".api-nav", docs);
const narrow = matchMedia("(max-width: 860px)");

// --- one entry at a time ---

function viewOf(hash) {
  const target = hash ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  return { target, view: target?.closest("[data-view]") ?? find("#overview") };
}

function show(isStart) {
  const { target, view } = viewOf(location.hash);
  for (const each of findAll("[data-view]", docs)) each.hidden = each !== view;
  for (const link of findAll(".api-links a", docs)) {
    if (link.hash === `#${view.id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (view.matches(".operation")) complete(view);
  if (narrow.matches) contents.open = false;
  find(".api-links a[aria-current]", docs)?.scrollIntoView({ block: "nearest" });
  if (isStart && !location.hash) return;
  const heading = target && target !== view ? target : find("h1, h2", view);
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  window.scrollTo(0, target === view || !target ? 0 : target.getBoundingClientRect().top + scrollY - 16);
}

// --- search ---

function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const links = findAll(".api-links a", docs);
  for (const link of links) {
    const said = `${link.textContent} ${link.title}`.toLowerCase();
    link.parentElement.hidden = !words.every((word) => said.includes(word));
  }
  for (const group of findAll("nav section", docs)) group.hidden = !find("li:not([hidden])", group);
  const left = links.filter((link) => !link.parentElement.hidden);
  announce(words.length ? (left.length ? plural(left.length, "match").replace("matchs", "matches") : "No matches.") : "");
  return left;
}

// --- the console ---

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const tokens = {}; // by their variable in the examples; kept until the page is left, never stored
const TOKEN_LABELS = { ADMIN_TOKEN: "Admin token (not stored)", OWNER_TOKEN: "Owner token (not stored)" };
const tokenOf = (article) => (article.dataset.auth in TOKEN_LABELS ? article.dataset.auth : null);

function complete(article) {
  if (find(".console", article)) return;
  for (const line of findAll("[data-schemas]", article)) showFields(line);
  const form = make("form", { class: "console", "aria-label": "Try it" });
  form.append(make("h3", {}, "Try it"), make("p", { class: "muted small" }, `Sends the request to ${location.origin}.`));
  const rows = findAll("[data-parameter]", article).filter((row) => row.dataset.parameter !== "If-None-Match");
  const fields = make("div", { class: "console-fields" }, ...rows.map((row) => inputOf(article, row)));
  if (tokenOf(article)) fields.append(tokenField(article));
  form.append(fields);
  const body = find("[data-body]", article);
  if (body) form.append(...bodyField(article, body.textContent));
  form.append(make("div", { class: "actions" }, make("button", {}, "Send request")));
  form.append(make("div", { class: "console-result", role: "status" }), snippets(article));
  find("[data-curl]", article).previousElementSibling.remove();
  find("[data-curl]", article).remove();
  article.append(form);
  form.addEventListener("input", () => refresh(article));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(article);
  });
  refresh(article);
}

// The fields of the schemas that a line links to, so that they can be read without leaving the operation.
function showFields(line) {
  const names = [...new Set(findAll("a", line).map((link) => link.hash.slice(1)))];
  const shown = names.map((name) => find(`#${CSS.escape(name)} dl`)).filter(Boolean);
  for (const fields of shown.reverse()) {
    const name = fields.closest("[data-view]").id.replace("schema-", "");
    line.after(make("details", { class: "fields" }, make("summary", {}, `Fields of ${name}`), fields.cloneNode(true)));
  }
}

function inputOf(article, row) {
  const { parameter, in: where, choices, example = "", required } = row.dataset;
  const id = `${article.id}-${parameter}`;
  const input = choices
    ? make("select", { id }, make("option", { value: "" }, "—"), ...choices.split(",").map((value) => make("option", {}, value)))
    : make("input", { id, value: example, autocomplete: "off", spellcheck: "false", class: "code-input" });
  input.dataset.send = parameter;
  input.dataset.where = where;
  if (required !== undefined) input.required = true;
  return make("div", {}, make("label", { for: id }, `${parameter}${required === undefined ? "" : " (required)"}`), input);
}

function tokenField(article) {
  const id = `${article.id}-token`;
  const input = make("input", { id, type: "password", autocomplete: "off", class: "code-input", "data-token": "" });
  const kind = tokenOf(article);
  input.value = tokens[kind] ?? "";
  input.addEventListener("input", () => { tokens[kind] = input.value; });
  return make("div", {}, make("label", { for: id }, TOKEN_LABELS[kind]), input);
}

function bodyField(article, text) {
  const id = `${article.id}-body`;
  const area = make("textarea", { id, class: "code-input", rows: Math.min(16, text.split("\n").length + 1), spellcheck: "false", "aria-describedby": `${id}-problem` });
  area.value = text;
  area.dataset.send = "body";
  return [make("label", { for: id }, "Body (JSON)"), area, make("p", { class: "field-problem", id: `${id}-problem` })];
}

// What would be sent now.
function callOf(article) {
  const call = { method: find(".method", article).textContent, path: find(".address code", article).textContent, headers: {}, query: new URLSearchParams(), body: null };
  for (const input of findAll("[data-send]", article)) {
    const { send: name, where } = input.dataset;
    if (name === "body") call.body = input.value;
    else if (where === "path") call.path = call.path.replace(`{${name}}`, input.value ? escapePath(name, input.value) : `{${name}}`);
    else if (input.value && where === "query") call.query.set(name, input.value);
    else if (input.value) call.headers[name] = input.value;
  }
  if (call.body !== null) call.headers["Content-Type"] = "application/json";
  const query = call.query.toString();
  call.url = `${location.origin}${call.path}${query ? `?${query}` : ""}`;
  return call;
}

const escapePath = (name, value) => (name === "path" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value));

async function send(article) {
  const call = callOf(article);
  if (!isJson(article, call.body)) return;
  const result = find(".console-result", article);
  const button = find(".console .actions button", article);
  const token = tokens[tokenOf(article)];
  if (token) call.headers.Authorization = `Bearer ${token}`;
  button.disabled = true;
  result.replaceChildren(make("p", { class: "muted" }, "Waiting for the response."));
  const started = performance.now();
  try {
    const response = await fetch(call.url, { method: call.method, headers: call.headers, body: call.body, credentials: "omit" });
    result.replaceChildren(...await shownResponse(response, performance.now() - started));
  } catch {
    result.replaceChildren(make("p", { class: "banner problem" }, "No response. Check your connection and send it again."));
  }
  button.disabled = false;
}

function isJson(article, body) {
  if (body === null) return true;
  const area = find("textarea", article);
  let problem = "";
  try { JSON.parse(body); } catch (error) { problem = `This is not valid JSON: ${error.message}`; }
  find(".field-problem", article).textContent = problem;
  area.setAttribute("aria-invalid", String(Boolean(problem)));
  if (problem) area.focus();
  return !problem;
}

const HEADERS = ["content-type", "etag", "cache-control", "retry-after", "ratelimit-remaining", "location"];
const LONGEST_SHOWN = 100000;

async function shownResponse(response, ms) {
  const hue = response.ok ? "hue-published" : "hue-rejected";
  const status = make("p", {}, make("span", { class: `chip ${hue}` }, `${response.status} ${response.statusText}`.trim()), ` in ${Math.round(ms)} ms`);
  const headers = HEADERS.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
  const shown = make("pre", { class: "command tall", tabindex: "0", role: "region", "aria-label": "Response" }, make("code", {}, `${headers.join("\n")}\n\n${await textOf(response)}`));
  return [status, shown];
}

async function textOf(response) {
  const kind = response.headers.get("content-type") ?? "";
  if (/zip|octet-stream/.test(kind)) return `(${(await response.arrayBuffer()).byteLength} bytes)`;
  let text = await response.text();
  if (/json/.test(kind)) try { text = JSON.stringify(JSON.parse(text), null, 1); } catch { /* shown as it came */ }
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}\n(${text.length - LONGEST_SHOWN} more characters)` : text;
}

// --- the call in three languages ---

const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const compact = (body) => { try { return JSON.stringify(JSON.parse(body)); } catch { return body; } };
const lines = (entries, render) => Object.entries(entries).map(([name, value]) => render(name, value));

const LANGUAGES = {
  curl(call, variable) {
    const parts = [`curl -s ${inShell(call.url)}`, ...(call.method === "GET" || call.body !== null ? [] : [`-X ${call.method}`])];
    if (variable) parts.push(`-H "Authorization: Bearer $${variable}"`);
    parts.push(...lines(call.headers, (name, value) => `-H ${inShell(`${name}: ${value}`)}`));
    if (call.body !== null) parts.push(`-d ${inShell(compact(call.body))}`);
    return parts.join(" \\\n  ");
  },
  Python(call, variable) {
    const headers = lines(call.headers, (name, value) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`);
    if (variable) headers.unshift(`    "Authorization": f"Bearer {os.environ['${variable}']}",`);
    const data = call.body === null ? "" : `, data=${JSON.stringify(compact(call.body))}.encode()`;
    return [
      ...(variable ? ["import os"] : []),
      "import urllib.request",
      "",
      `headers = {${headers.length ? `\n${headers.join("\n")}\n` : ""}}`,
      `request = urllib.request.Request(${JSON.stringify(call.url)}, method="${call.method}", headers=headers${data})`,
      "with urllib.request.urlopen(request) as response:",
      "    print(response.status, response.read().decode())",
    ].join("\n");
  },
  JavaScript(call, variable) {
    const headers = lines(call.headers, (name, value) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`);
    if (variable) headers.unshift(`    Authorization: \`Bearer \${process.env.${variable}}\`,`);
    return [
      `const response = await fetch(${JSON.stringify(call.url)}, {`,
      `  method: "${call.method}",`,
      ...(headers.length ? ["  headers: {", ...headers, "  },"] : []),
      ...(call.body === null ? [] : [`  body: ${JSON.stringify(compact(call.body))},`]),
      "});",
      "console.log(response.status, await response.text());",
    ].join("\n");
  },
};
let language = "curl";

function snippets(article) {
  const buttons = Object.keys(LANGUAGES).map((name) => make("button", { type: "button", class: "plain", "data-language": name }, name));
  for (const button of buttons) {
    button.addEventListener("click", () => {
      language = button.dataset.language;
      refresh(article);
    });
  }
  const id = `${article.id}-code`;
  const copy = make("button", { type: "button", class: "plain", "data-copy": `#${id}` }, make("span", {}, "Copy"));
  const code = make("pre", { class: "command", tabindex: "0", role: "region", "aria-label": "The call as code" }, make("code", { id }));
  const shown = make("div", { class: "snippets" }, make("h3", {}, "The call as code"), make("div", { class: "actions" }, ...buttons, copy), code);
  enableCopyButtons(shown);
  return shown;
}

function refresh(article) {
  for (const button of findAll("[data-language]", article)) button.setAttribute("aria-pressed", String(button.dataset.language === language));
  find(".snippets code", article).textContent = LANGUAGES[language](callOf(article), tokenOf(article));
}

// --- start ---

const search = find("#api-search");
search.hidden = false;
search.addEventListener("input", () => filter(search.value));
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  const left = filter(search.value);
  const phrase = search.value.trim().toLowerCase();
  (left.find((link) => link.title.toLowerCase().startsWith(phrase)) ?? left[0])?.click();
});
addEventListener("hashchange", () => show(false));
docs.classList.add("one");
show(true);
