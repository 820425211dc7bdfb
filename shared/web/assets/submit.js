// Find the skills of a repository, choose among them, submit; or read a folder and send it. Without this script the
// same two forms are sent as they are.
const API = "/api/v1/submissions";
const NAME = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;
const FIELD_OF = { name_taken: "uploadToken", invalid_skill_name: "name" };

class Refusal extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
  }
}

async function ask(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => { throw new Refusal(0, { code: "offline", message: "We could not reach the platform. What you typed is still here; try again." }); });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, answer.error ?? { message: "Something went wrong here. Try again." });
  return answer;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const WORDS = {
  RECEIVED: "waiting", TIER1_SCANNING: "scanning", TIER2_SCANNING: "judging", AUTO_APPROVED: "publishing",
  PUBLISHED: "published", VENDOR_APPROVED: "published", REJECTED: "rejected", TIER1_FAILED: "failed the scan",
  DEQUEUED: "taken out", BLOCKED: "blocked", ON_HOLD: "on hold", RESCAN_REQUIRED: "needs a new scan",
};
const count = (n) => (n === 1 ? "1 skill" : `${n} skills`);

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
const repoUrl = find("#repo-url");
const repoProblem = find("#repo-url-problem");
const found = find("[data-found]");
const repoButton = find("[data-submit-repo]");
let listed = null; // what discovery found, for the address it was asked about

repoForm.addEventListener("submit", async (event) => {
  if (find("#skill-path").value.trim() || find("#skill-name").value.trim()) return; // one is named: the plain form knows what to do
  event.preventDefault();
  showProblem(repoUrl, repoProblem, "");
  if (!repoUrl.value.trim()) return showProblem(repoUrl, repoProblem, "Paste the address of a GitHub repository.");
  repoButton.disabled = true;
  try {
    if (listed?.repoUrl === repoUrl.value.trim()) await submitChosen();
    else await discover();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 404 || error.status === 405) return repoForm.submit(); // no discovery on this platform
    showProblem(repoUrl, repoProblem, error.message);
  } finally {
    repoButton.disabled = false;
  }
});
repoUrl.addEventListener("input", forget);

function forget() {
  listed = null;
  found.hidden = true;
  repoButton.textContent = "Find skills";
}
forget();
if (!repoUrl.value) repoUrl.focus();

async function discover() {
  repoButton.textContent = "Looking …";
  let answer;
  try {
    answer = await ask(`${API}/discover`, { repoUrl: repoUrl.value.trim() });
  } finally {
    repoButton.textContent = "Find skills";
  }
  if (!answer.count) return showProblem(repoUrl, repoProblem, "There is no SKILL.md in this repository.");
  listed = { repoUrl: repoUrl.value.trim(), skills: answer.skills };
  const items = answer.skills.map((skill, n) => {
    const box = element("input", { type: "checkbox", value: String(n) });
    box.checked = !skill.submissionId;
    const note = skill.submissionId ? `${skill.path} · ${WORDS[skill.status] ?? "already submitted"}` : skill.path;
    return element("li", {}, element("label", {}, box, element("span", {}, skill.name), element("span", { class: "muted" }, note)));
  });
  const more = answer.truncated ? [element("p", { class: "muted small" }, "There are more; submit the others by folder.")] : [];
  found.replaceChildren(element("ul", { class: "found" }, ...items), ...more);
  found.hidden = false;
  found.addEventListener("change", nameButton);
  nameButton();
  find("[data-news]", repoForm).textContent = `${count(answer.count)} found`;
}

const chosen = () => findAll("input:checked", found).map((box) => listed.skills[Number(box.value)]);

function nameButton() {
  repoButton.textContent = `Submit ${count(chosen().length)}`;
  repoButton.disabled = !chosen().length;
}

async function submitChosen() {
  const skills = chosen().map(({ name, path }) => ({ name, path }));
  const answer = await ask(API, { repoUrl: listed.repoUrl, skills, source: "the website" });
  const submissions = answer.submissions;
  if (submissions.length === 1 && !(answer.skipped ?? []).length) return location.assign(`/submissions/${submissions[0].id}`);
  const results = find("[data-results]");
  results.replaceChildren(
    ...submissions.map((one) => element("li", {}, element("a", { href: `/submissions/${one.id}` }, one.skillName), element("span", { class: "muted" }, flagOf(one)))),
    ...(answer.skipped ?? []).map((one) => element("li", {}, element("span", {}, one.name ?? one.path ?? ""), element("span", { class: "muted" }, one.message ?? "skipped"))),
  );
  results.hidden = false;
  forget();
  find("[data-news]", repoForm).textContent = `${count(submissions.length)} submitted`;
  find("a", results)?.focus();
}

function flagOf(one) {
  const flags = { duplicate: "already submitted", requeued: "queued again", alreadyVerified: "already published", blocked: "blocked" };
  return Object.entries(flags).find(([flag]) => one[flag])?.[1] ?? "submitted";
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
    choose((await Promise.all(entries.map((entry) => walk(entry, "")))).flat());
  });

  function choose(all) {
    const visible = all.filter(({ path }) => !path.split("/").some((part) => part === ".git" || part === ".DS_Store"));
    const tops = new Set(visible.map(({ path }) => path.split("/")[0]));
    const top = tops.size === 1 && visible.every(({ path }) => path.includes("/")) ? [...tops][0] : null;
    files = top ? visible.map(({ path, file }) => ({ path: path.slice(top.length + 1), file })) : visible;
    if (top && !nameInput.value) nameInput.value = top.toLowerCase().replace(/[^a-z0-9._-]+/g, "-");
    const size = files.reduce((sum, { file }) => sum + file.size, 0);
    find("[data-chosen]").textContent = `${files.length} ${files.length === 1 ? "file" : "files"}, ${(size / 1024).toFixed(1)} KB${files.some(({ path }) => path === "SKILL.md") ? "" : ". There is no SKILL.md at the top"}`;
  }

  uploadForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = find("[data-submit-upload]");
    clearProblems();
    if (!NAME.test(nameInput.value.trim())) return problemAt("name", "Use 1 to 64 lower-case letters, digits and hyphens, like my-skill.");
    if (!files.length) return problemAt("files", "Choose the files of the skill.");
    button.disabled = true;
    try {
      const bundle = { name: nameInput.value.trim(), files: await Promise.all(files.map(read)) };
      const token = find("#token").value.trim();
      showUploaded(await ask(API, { bundle, source: "the website", ...(token ? { uploadToken: token } : {}) }));
    } catch (error) {
      problemAt(FIELD_OF[error.code] ?? "files", error.message);
    } finally {
      button.disabled = false;
    }
  });

  function problemAt(field, text) {
    const inputs = { name: nameInput, files: filesInput, uploadToken: find("#token") };
    showProblem(inputs[field], find(`[data-problem="${field}"]`), text);
  }

  function clearProblems() {
    for (const problem of findAll("[data-problem]", uploadForm)) problem.textContent = "";
    for (const input of findAll("[aria-invalid]", uploadForm)) input.removeAttribute("aria-invalid");
  }

  function showUploaded(answer) {
    if (!answer.uploadToken) return location.assign(`/submissions/${answer.id}`);
    const input = element("input", { id: "new-token", class: "code-input", readonly: "", value: answer.uploadToken });
    const copy = element("button", { type: "button", class: "plain", "data-copy": "#new-token" }, "Copy");
    const link = element("a", { class: "button", href: `/submissions/${answer.id}` }, "Follow it");
    const box = element(
      "div", { class: "panel good", role: "status" },
      element("p", {}, element("strong", {}, `Submitted ${answer.skillName}`)),
      element("label", { for: "new-token" }, "Keep this token: only with it can you upload a new version under this name. It is shown once."),
      element("p", { class: "copy" }, input, copy),
      element("p", {}, link),
    );
    find("[data-uploaded]").replaceChildren(box);
    find("[data-uploaded]").hidden = false;
    uploadForm.hidden = true;
    offerCopying(box);
    link.focus();
  }

  async function read({ path, file }) {
    const bytes = await file.arrayBuffer();
    try {
      return { path, content: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
    } catch {
      throw new Refusal(400, { code: "invalid_bundle", message: `${path} is not a text file (UTF-8). Leave it out.` });
    }
  }

  async function walk(entry, before) {
    const path = before + entry.name;
    if (entry.isFile) return [{ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) }];
    const reader = entry.createReader();
    const inside = [];
    for (;;) { // a reader gives at most 100 at a time
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) break;
      inside.push(...some);
    }
    return (await Promise.all(inside.map((one) => walk(one, `${path}/`)))).flat();
  }
}
