// The browser part of the reader: one-key votes, moving through the list, "why" in place. Every
// button works without it; the list itself is changed by the live page.

const form = document.querySelector('#act');
const status = document.querySelector('#status');
/** Where the reader is in the list, by id and by place. */
const here = { id: undefined, index: 0 };

const items = () => [...document.querySelectorAll('li[data-article]')];

/** The last rating of this page, which can be taken back by a key. */
let lastVote;
let sayTimer;

function say(text, isFailure = false) {
  clearTimeout(sayTimer);
  status.textContent = text;
  status.classList.toggle('failed', isFailure);
  // A failure stays until something else is said.
  if (!isFailure) sayTimer = setTimeout(() => say(''), 6_000);
}

function current() {
  const list = items();
  return (
    list.find((item) => item.contains(document.activeElement)) ??
    list.find(({ dataset }) => dataset.article === here.id)
  );
}

function moveTo(item) {
  if (item === undefined) return;
  for (const other of items()) other.classList.toggle('here', other === item);
  here.id = item.dataset.article;
  here.index = items().indexOf(item);
  item.focus({ preventScroll: true });
  item.scrollIntoView({ block: 'nearest' });
}

function step(by) {
  const list = items();
  const at = list.indexOf(current());
  moveTo(list[at === -1 ? 0 : Math.min(list.length - 1, Math.max(0, at + by))]);
}

/** A page stays open longer than its token is valid: the page itself has a new one. */
async function renewToken() {
  const text = await (await fetch(location.href, { headers: { accept: 'text/html' } })).text();
  const page = new DOMParser().parseFromString(text, 'text/html');
  const fresh = page.querySelector('#act [name=_csrf]')?.value;
  if (fresh === undefined) location.reload();
  else form.elements._csrf.value = fresh;
}

async function post(action, name, value, isRepeated = false) {
  const body = new URLSearchParams(name === '' ? [] : [[name, value]]);
  const headers = { accept: 'application/json', 'x-csrf-token': form.elements._csrf.value };
  const answer = await fetch(action, { method: 'POST', body, headers });
  if (answer.ok) return;
  const { error: failure = {} } = await answer.json().catch(() => ({}));
  if (failure.code === 'CSRF_REFUSED' && !isRepeated) {
    await renewToken();
    await post(action, name, value, true);
    return;
  }
  throw new Error(failure.message ?? `The server answered ${answer.status}.`);
}

/** Does what a button says without leaving the page. */
async function press(button) {
  const item = button.closest('li[data-article]');
  const title = item?.querySelector('h2')?.textContent.trim() ?? '';
  const id = item?.dataset.article;
  if (item) {
    here.id = id;
    here.index = items().indexOf(item);
    item.classList.add('busy');
  }
  const isBack = button.formAction.endsWith('/unvote');
  const rated = isBack
    ? `Taken back: ${title}`
    : `Rated ${button.value}: ${title} (u takes it back)`;
  const done = { score: rated, rule: 'Rule added' }[button.name];
  try {
    await post(button.formAction, button.name, button.value);
    if (button.name === 'score') lastVote = isBack ? undefined : { id, title };
    say(done ?? `Done: ${title}`);
    const menu = button.closest('details');
    if (menu) menu.open = false;
  } catch (error) {
    say(`${title}: not done. ${error.message}`, true);
  } finally {
    item?.classList.remove('busy');
  }
}

async function takeBack() {
  if (lastVote === undefined) {
    say('There is no rating of this page to take back.', true);
    return;
  }
  const { id, title } = lastVote;
  lastVote = undefined;
  try {
    await post(`/reader/articles/${id}/unvote`, '', '');
    say(`Taken back: ${title}`);
  } catch (error) {
    say(`${title}: not taken back. ${error.message}`, true);
  }
}

async function showWhy(link) {
  const answer = await fetch(link.href, { headers: { accept: 'text/html' } });
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const card = page.querySelector('.why');
  if (!answer.ok || card === null) {
    location.assign(link.href);
    return;
  }
  card.querySelector('.back')?.remove();
  const dialog = document.createElement('dialog');
  const close = document.createElement('button');
  close.textContent = 'Close';
  close.className = 'close';
  close.autofocus = true;
  close.addEventListener('click', () => dialog.close());
  dialog.setAttribute('aria-label', 'Why this score');
  dialog.append(card, close);
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
  dialog.addEventListener('close', () => {
    dialog.remove();
    link.focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  o: () => current()?.querySelector('a.title')?.click(),
  w: () => current()?.querySelector('a.why')?.click(),
  x: () => current()?.querySelector('button[formaction$="/done"]')?.click(),
  u: () => void takeBack(),
  '+': () => vote('9'),
  '-': () => vote('2'),
  '/': () => document.querySelector('#q')?.focus(),
};
for (const digit of '123456789') keys[digit] = () => vote(digit);
keys['0'] = () => vote('10');

function vote(score) {
  const item = current();
  if (item === undefined) say('Choose an article first: j and k move.', true);
  else item.querySelector(`.scale button[value="${score}"]`)?.click();
}

document.addEventListener('keydown', (event) => {
  const isTyping = event.target.closest('input, textarea, select, dialog') !== null;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = keys[event.key];
  const isUseful = items().length > 0 || event.key === 'u';
  if (act === undefined || !isUseful) return;
  event.preventDefault();
  act();
});

document.addEventListener('click', (event) => {
  const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey);
  const button = event.target.closest('button[form=act]');
  const link = event.target.closest('a.why');
  if (button !== null && button.closest('li[data-article]') !== null) {
    event.preventDefault();
    void press(button);
  } else if (link !== null && isPlain) {
    event.preventDefault();
    void showWhy(link);
  }
});

document.addEventListener('focusin', (event) => {
  const item = event.target.closest?.('li[data-article]');
  if (item === null || item === undefined || item.dataset.article === here.id) return;
  for (const other of items()) other.classList.toggle('here', other === item);
  here.id = item.dataset.article;
  here.index = items().indexOf(item);
});

// When the article that the reader is at leaves the list, the next one takes its place.
const list = document.querySelector('[data-live-url]');
if (list !== null) {
  new MutationObserver(() => {
    const left = items();
    const isGone =
      here.id !== undefined && !left.some(({ dataset }) => dataset.article === here.id);
    const isFree = document.activeElement === document.body || document.activeElement === null;
    if (isGone && isFree) moveTo(left[Math.min(here.index, left.length - 1)]);
  }).observe(list, { childList: true, subtree: true });
}

// A file is read here, since a form without script can only send what is pasted.
for (const label of document.querySelectorAll('[data-fills]')) {
  label.hidden = false;
  label.querySelector('input').addEventListener('change', (event) => {
    const [file] = event.target.files;
    const field = document.getElementById(label.dataset.fills);
    void file?.text().then((text) => {
      field.value = text;
    });
  });
}
