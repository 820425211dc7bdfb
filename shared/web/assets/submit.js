// Discovers the skills of a repository, or reads a folder, and submits through the API. Without this script the same
// two forms are submitted as they are.
const API = "/api/v1/submissions";
const NAME = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;
const FIELD_OF = { name_taken: "uploadToken", wrong_upload_token: "uploadToken", invalid_skill_name: "name" };

const sentences = JSON.parse(find("[data-repo-form]").dataset.sentences); // of errors whose text is about the API

class RequestFailed extends Error {
  constructor(status, error) {
    super(sentences[error.code] ?? error.message);
    this.status = status;
    this.code = error.code;
  }
}

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => { throw new RequestFailed(0, { code: "offline", message: "The platform is not reachable. Your input is kept; try again." }); });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new RequestFailed(response.status, answer.error ?? { message: "Something went wrong. Try again." });
  return answer;
}

const sizeOf = (bytes) => (bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KB`);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function showProblem(input, problem, text) {
  problem.textContent = text;
  input.toggleAttribute("aria-invalid", false);
  if (!text) return input.removeAttribute("aria-describedby");
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", problem.id);
  input.closest("details")?.setAttribute("open", "");
  input.focus();
}

// --- from GitHub ---

const repoForm = find("[data-repo-form]");
const stateLabels = JSON.parse(repoForm.dataset.stateLabels);
const flagLabels = JSON.parse(repoForm.dataset.flagLabels);
const repoUrl = find("#repo-url");
const repoProblem = find("#repo-url-problem");
const found = find("[data-found]");
const repoButton = find("[data-submit-repo]");
const unreachable = find("[data-unreachable]");
let listed = null; // the discovered skills and the URL they belong to

repoForm.addEventListener("submit", async (event) => {
  if (find("#skill-path").value.trim() || find("#skill-name").value.trim() || find("[data-choices]")) return; // the plain form handles it
  event.preventDefault();
  showProblem(repoUrl, repoProblem, "");
  unreachable.hidden = true;
  if (!repoUrl.value.trim()) return showProblem(repoUrl, repoProblem, "Enter the URL of a GitHub repository.");
  repoButton.disabled = true;
  try {
    if (listed?.repoUrl === repoUrl.value.trim()) await submitChosen();
    else await discover();
  } catch (error) {
    if (!(error instanceof RequestFailed)) throw error;
    if (error.status === 404 || error.status === 405) return repoForm.submit(); // no discovery on this platform
    showProblem(repoUrl, repoProblem, error.message);
    unreachable.hidden = !(error.status === 0 || error.status >= 500);
  } finally {
    repoButton.disabled = false;
    if (listed) updateButton();
  }
});
repoUrl.addEventListener("input", forget);
find("[data-retry]").addEventListener("click", () => repoForm.requestSubmit(repoButton));
find("[data-submit-anyway]").addEventListener("click", () => repoForm.submit()); // the plain form: no discovery

function forget() {
  listed = null;
  found.hidden = unreachable.hidden = true;
  repoButton.textContent = "Find skills";
}
forget();
if (find("#name")?.value) find("#files").focus(); // a new version of an upload
else if (!repoUrl.value) repoUrl.focus();

async function discover() {
  repoButton.textContent = "Searching…";
  let answer;
  try {
    answer = await post(`${API}/discover`, { repoUrl: repoUrl.value.trim() });
  } finally {
    repoButton.textContent = "Find skills";
  }
  if (!answer.count) return showProblem(repoUrl, repoProblem, "No SKILL.md found in this repository.");
  listed = { repoUrl: repoUrl.value.trim(), skills: answer.skills };
  const items = answer.skills.map((skill, n) => {
    const box = element("input", { type: "checkbox", value: String(n) });
    box.checked = !skill.submissionId;
    const note = skill.submissionId ? `${skill.path} · ${stateLabels[skill.status] ?? flagLabels.duplicate}` : skill.path;
    return element("li", {}, element("label", {}, box, element("span", {}, skill.name), element("span", { class: "muted" }, note)));
  });
  const more = answer.truncated ? [element("p", { class: "muted small" }, "Not all skills are listed. Submit the others by folder.")] : [];
  found.replaceChildren(element("ul", { class: "found" }, ...items), ...more);
  found.hidden = false;
  found.addEventListener("change", updateButton);
  updateButton();
  find("[data-news]", repoForm).textContent = `${plural(answer.count, "skill")} found`;
  found.focus();
}

const chosen = () => findAll("input:checked", found).map((box) => listed.skills[Number(box.value)]);

function updateButton() {
  const n = chosen().length;
  repoButton.textContent = n ? `Submit ${plural(n, "skill")}` : "Choose skills to submit";
  repoButton.disabled = !n;
}

const AT_ONCE = 50; // skills in one request

async function submitChosen() {
  const skills = chosen().map(({ name, path }) => ({ name, path }));
  const submissions = [];
  const skipped = [];
  for (let n = 0; n < skills.length; n += AT_ONCE) {
    try {
      const answer = await post(API, { repoUrl: listed.repoUrl, skills: skills.slice(n, n + AT_ONCE), source: "the website" });
      submissions.push(...answer.submissions);
      skipped.push(...(answer.skipped ?? []));
    } catch (error) {
      if (!n || !(error instanceof RequestFailed)) throw error;
      skipped.push(...skills.slice(n).map((one) => ({ ...one, message: error.message }))); // what came before stays
      break;
    }
  }
  if (submissions.length === 1 && !skipped.length) return location.assign(addressOf(submissions[0]));
  const results = find("[data-results]");
  results.replaceChildren(
    ...submissions.map((one) => element("li", {}, element("a", { href: addressOf(one) }, one.skillName), element("span", { class: "muted" }, flagLabelOf(one)))),
    ...skipped.map((one) => element("li", {}, element("span", {}, one.name ?? one.path ?? ""), element("span", { class: "muted" }, sentences[one.code] ?? one.message))),
  );
  results.hidden = false;
  forget();
  find("[data-news]", repoForm).textContent = `${plural(submissions.length, "skill")} submitted`;
  find("a", results)?.focus();
}

// The page of a submission; of one that was there before, it says what that means.
function addressOf(one) {
  const flag = Object.keys(flagLabels).find((name) => one[name] === true);
  return `/submissions/${one.id}${flag ? `?sent=${flag}` : ""}`;
}

function flagLabelOf(one) {
  return Object.entries(flagLabels).find(([flag]) => one[flag])?.[1] ?? flagLabels.accepted;
}

// --- a folder ---

const uploadForm = find("[data-upload-form]");

if (uploadForm) {
  const nameInput = find("#name");
  const filesInput = find("#files");
  const folderInput = find("#folder");
  const drop = find("[data-drop]");
  let files = []; // { path, file }

  find("[data-folder]").hidden = find("[data-drop-hint]").hidden = false;
  filesInput.addEventListener("change", () => choose([...filesInput.files].map((file) => ({ path: file.name, file }))));
  folderInput.addEventListener("change", () => choose([...folderInput.files].map((file) => ({ path: file.webkitRelativePath, file }))));
  for (const type of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(type, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", type === "dragover");
    });
  }
  drop.addEventListener("drop", async (event) => {
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    choose((await Promise.all(entries.map((entry) => readTree(entry, "")))).flat());
  });

  function choose(all) {
    const visible = all.filter(({ path }) => !path.split("/").some((part) => part === ".git" || part === ".DS_Store"));
    const tops = new Set(visible.map(({ path }) => path.split("/")[0]));
    const top = tops.size === 1 && visible.every(({ path }) => path.includes("/")) ? [...tops][0] : null;
    find("[data-check-result]").replaceChildren();
    files = top ? visible.map(({ path, file }) => ({ path: path.slice(top.length + 1), file })) : visible;
    if (top && !nameInput.value) nameInput.value = top.toLowerCase().replace(/[^a-z0-9._-]+/g, "-").slice(0, 64).replace(/^[._-]+|[._-]+$/g, "");
    showChosen();
  }

  function showChosen() {
    const size = files.reduce((sum, { file }) => sum + file.size, 0);
    find("[data-chosen]").textContent = `${plural(files.length, "file")}, ${sizeOf(size)}${isZip() || files.some(({ path }) => path === "SKILL.md") ? "" : ". SKILL.md is missing at the top level"}`;
    const list = find("[data-files]");
    list.replaceChildren(...files.map(fileItem));
    list.hidden = !files.length;
  }

  // What is not text is named as such, and anything but SKILL.md can be left out.
  function fileItem(chosenFile) {
    const { path, file } = chosenFile;
    const note = element("span", { class: "muted" }, sizeOf(file.size));
    file.arrayBuffer().then((bytes) => { if (textIn(bytes) === null) note.textContent += ", not text"; });
    const remove = element("button", { type: "button", class: "plain", "aria-label": `Remove ${path}` }, "Remove");
    remove.addEventListener("click", () => {
      files = files.filter((one) => one !== chosenFile);
      showChosen();
      (find("[data-files] button") ?? filesInput).focus();
    });
    return element("li", {}, element("span", {}, path), note, ...(path === "SKILL.md" ? [] : [remove]));
  }

  const isZip = () => files.length === 1 && files[0].path.toLowerCase().endsWith(".zip");

  uploadForm.addEventListener("submit", async (event) => {
    if (isZip() && filesInput.files.length === 1) return; // the server reads it
    event.preventDefault();
    clearProblems();
    if (event.submitter === find("[data-check]")) return check(event.submitter);
    const button = find("[data-submit-upload]");
    if (!NAME.test(nameInput.value.trim())) return problemAt("name", "Use 1 to 64 lowercase letters, digits, dots, hyphens or underscores, for example my-skill.");
    if (!files.length) return problemAt("files", "Choose the files to upload.");
    button.disabled = true;
    try {
      const bundle = { name: nameInput.value.trim(), files: await Promise.all(files.map(read)) };
      const token = find("#token").value.trim();
      showUploaded(await post(API, { bundle, source: "the website", ...(token ? { uploadToken: token } : {}) }));
    } catch (error) {
      problemAt(FIELD_OF[error.code] ?? "files", error.message);
    } finally {
      button.disabled = false;
    }
  });

  // The server renders the result, here as without this script.
  async function check(button) {
    if (!files.length) return problemAt("files", "Choose the files to check.");
    button.disabled = true;
    try {
      const form = new FormData();
      form.append("action", "check");
      for (const { path, file } of files) form.append("files", file, path);
      const response = await fetch(uploadForm.getAttribute("action"), { method: "POST", body: form });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const problem = find("#files-problem", page)?.textContent || find(".empty p:nth-of-type(2)", page)?.textContent;
      if (!response.ok) return problemAt("files", problem || "Something went wrong. Try again.");
      find("[data-check-result]").replaceChildren(...find("[data-check-result]", page).childNodes);
      find("[data-checked]").focus();
    } catch {
      problemAt("files", "The platform is not reachable. Your input is kept; try again.");
    } finally {
      button.disabled = false;
    }
  }

  function problemAt(field, text) {
    const inputs = { name: nameInput, files: filesInput, uploadToken: find("#token") };
    showProblem(inputs[field], find(`[data-problem="${field}"]`), text);
  }

  function clearProblems() {
    for (const problem of findAll("[data-problem]", uploadForm)) problem.textContent = "";
    for (const input of findAll("[aria-invalid]", uploadForm)) input.removeAttribute("aria-invalid");
  }

  function showUploaded(answer) {
    if (!answer.uploadToken) return location.assign(addressOf(answer));
    const uploaded = find("[data-uploaded]");
    uploaded.replaceChildren(find("[data-accepted-panel]").content.cloneNode(true));
    find("[data-skill-name]", uploaded).textContent = answer.skillName;
    find("#upload-token").value = answer.uploadToken;
    find("[data-warning]", uploaded).hidden = !(answer.warnings ?? []).some((text) => /YAML|mapping/.test(text));
    const link = find("a", uploaded);
    link.href = `/submissions/${answer.id}`;
    uploaded.hidden = false;
    uploadForm.hidden = true;
    enableCopyButtons(uploaded);
    link.focus();
  }

  async function read({ path, file }) {
    const bytes = await file.arrayBuffer();
    const content = textIn(bytes);
    return content === null ? { path, content: inBase64(bytes), encoding: "base64" } : { path, content };
  }

  function textIn(bytes) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return null;
    }
  }

  function inBase64(bytes) {
    let text = "";
    for (const byte of new Uint8Array(bytes)) text += String.fromCharCode(byte);
    return btoa(text);
  }

  async function readTree(entry, before) {
    const path = before + entry.name;
    if (entry.isFile) return [{ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) }];
    const reader = entry.createReader();
    const inside = [];
    for (;;) { // readEntries returns at most 100 entries per call
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) break;
      inside.push(...some);
    }
    return (await Promise.all(inside.map((one) => readTree(one, `${path}/`)))).flat();
  }
}
