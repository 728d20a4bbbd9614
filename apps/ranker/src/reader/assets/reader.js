// The browser part of the reader: keys, articles that open beside the list, votes in place. Every
// button and link works without it; the list itself is changed by the live page.

const form = document.querySelector('#act');
const status = document.querySelector('#status');
const listed = document.querySelector('[data-live-url]');
/** The place of the reader in the list. */
const here = { id: undefined, index: 0 };
/** Takes back the last thing that was done on this page. */
let takeBack;
let sayTimer;

const items = () => [...document.querySelectorAll('li[data-article]')];
const pane = () => document.querySelector('#article');
const openId = () => pane()?.dataset.open;

function say(text, isFailure = false) {
  clearTimeout(sayTimer);
  status.textContent = text;
  status.classList.toggle('failed', isFailure);
  if (text !== '' && !isFailure && takeBack !== undefined) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'button little';
    button.textContent = 'Take back';
    button.addEventListener('click', keys.u);
    status.append(' ', button);
  }
  // A failure stays until something else is said.
  if (!isFailure) sayTimer = setTimeout(() => say(''), 8_000);
}

function current() {
  const list = items();
  return (
    list.find((item) => item.contains(document.activeElement)) ??
    list.find(({ dataset }) => dataset.article === (here.id ?? openId()))
  );
}

function moveTo(item) {
  if (item === undefined) return;
  here.id = item.dataset.article;
  here.index = items().indexOf(item);
  const link = item.querySelector('a');
  link.focus({ preventScroll: true });
  item.scrollIntoView({ block: 'nearest' });
}

function step(by) {
  const list = items();
  const at = list.indexOf(current());
  moveTo(list[at === -1 ? 0 : Math.min(list.length - 1, Math.max(0, at + by))]);
}

function showOpen() {
  for (const item of items()) {
    const isHere = item.dataset.article === openId();
    item.querySelector('.item').classList.toggle('here', isHere);
  }
}

async function fetchPage(href) {
  const answer = await fetch(href, { headers: { accept: 'text/html' } });
  return new DOMParser().parseFromString(await answer.text(), 'text/html');
}

/** Shows an article in the third pane. */
async function open(href, isNew = true) {
  const found = (await fetchPage(href)).querySelector('#article');
  if (found === null) return location.assign(href);
  pane().replaceWith(document.adoptNode(found));
  if (isNew) history.pushState({}, '', href);
  // A new hash alone does not change what :target means.
  if (location.hash === '#article') location.replace('#article');
  here.id = openId() ?? here.id;
  pane().scrollTop = 0;
  showOpen();
}

/** Takes the state of the open article anew. */
async function renew() {
  if (openId() === undefined) return;
  const found = (await fetchPage(location.href)).querySelector('#article');
  if (found !== null) pane().replaceWith(document.adoptNode(found));
}

/** A page stays open longer than its token is valid: the page itself has a new one. */
async function renewToken() {
  const fresh = (await fetchPage(location.href)).querySelector('#act [name=_csrf]')?.value;
  if (fresh === undefined) location.reload();
  else form.elements._csrf.value = fresh;
}

async function post(action, fields = {}, isRepeated = false) {
  const headers = { accept: 'application/json', 'x-csrf-token': form.elements._csrf.value };
  const answer = await fetch(action, {
    method: 'POST',
    body: new URLSearchParams(fields),
    headers,
  });
  if (answer.ok) return answer.json();
  const { error: failure = {} } = await answer.json().catch(() => ({}));
  if (failure.code === 'CSRF_REFUSED' && !isRepeated) {
    await renewToken();
    return post(action, fields, true);
  }
  throw new Error(failure.message ?? `The server answered ${answer.status}.`);
}

async function act(action, fields, done, undo) {
  try {
    const answer = await post(action, fields);
    takeBack = undo?.(answer);
    say(done);
    await renew();
  } catch (error) {
    say(`Not done. ${error.message}`, true);
  }
}

const titleOf = (id) =>
  (document.querySelector(`#a-${id} strong`) ?? document.querySelector('#title'))?.textContent ??
  '';

function rate(id, score) {
  if (id === undefined) return say('Choose an article first: j and k move.', true);
  const undo = () => () => act(`/articles/${id}/unvote`, {}, `Taken back: ${titleOf(id)}`);
  const words = `Rated ${score}: ${titleOf(id)}`;
  return act(`/articles/${id}/vote`, { score }, words, undo);
}

/** Does what a button says without leaving the page. */
function press(button) {
  const [, id, name] = /articles\/([\w-]+)\/(\w+)$/.exec(button.formAction) ?? [];
  if (name === 'vote') return rate(id, button.value);
  if (button.formAction.endsWith('/read-all')) return readAll(button.value);
  const fields = button.name === '' ? {} : { [button.name]: button.value };
  const menu = button.closest('details.menu');
  if (menu !== null) menu.open = false;
  const words = button.name === 'rule' ? 'Rule added' : `Done: ${titleOf(id)}`;
  return act(button.formAction, fields, words);
}

function readAll(feed) {
  const undo = ({ at }) => {
    return () => act('/articles/unread-all', { at }, 'They are unread again.');
  };
  return act('/articles/read-all', { feed }, 'All read', undo);
}

const chosen = () => current()?.dataset.article ?? openId();
const pressed = (name) => pane()?.querySelector(`button[formaction$="${name}"]`);
const mark = (name) => {
  const button = pressed(`/${name}`) ?? pressed(`/un${name}`);
  if (button) return press(button);
  const id = chosen();
  return id && act(`/articles/${id}/${name}`, {}, `Done: ${titleOf(id)}`);
};

const keys = {
  j: () => step(1),
  k: () => step(-1),
  o: () => current()?.querySelector('a')?.click(),
  w: () => {
    const box = pane()?.querySelector('.why-box');
    if (box) box.open = !box.open;
  },
  s: () => mark('star'),
  l: () => mark('later'),
  v: () => pane()?.querySelector('a.original')?.click(),
  x: () => chosen() && act(`/articles/${chosen()}/done`, {}, `Done: ${titleOf(chosen())}`),
  m: () => chosen() && act(`/articles/${chosen()}/unread`, {}, 'Unread again'),
  u: () => {
    if (takeBack === undefined) return say('There is nothing to take back.', true);
    const undo = takeBack;
    takeBack = undefined;
    return undo();
  },
  A: () => document.querySelector('.all-read')?.click(),
  '/': () => document.querySelector('#q')?.focus(),
  '?': () => document.querySelector('.keys')?.classList.toggle('shown'),
  0: () => rate(chosen(), '10'),
};
for (const digit of '123456789') keys[digit] = () => rate(chosen(), digit);

document.addEventListener('keydown', (event) => {
  const isTyping = event.target.closest('input, textarea, select, dialog') !== null;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const does = keys[event.key];
  if (does === undefined || listed === null) return;
  event.preventDefault();
  void does();
});

/** Hands the address of an article to another app, or to the clipboard where there is no way to. */
async function share(button) {
  const { share: url } = button.dataset;
  button.closest('details').open = false;
  try {
    if (navigator.share !== undefined)
      return await navigator.share({ url, title: titleOf(openId()) });
    await navigator.clipboard.writeText(url);
    say('Its address is in the clipboard.');
  } catch (error) {
    if (error.name !== 'AbortError') say(`Not shared. ${error.message}`, true);
  }
}

document.addEventListener('click', (event) => {
  const shared = event.target.closest('[data-share]');
  if (shared !== null) void share(shared);
  const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey);
  const button = event.target.closest('button[form=act]');
  const link = event.target.closest('a.item');
  if (button !== null && !button.formAction.endsWith('/samples')) {
    event.preventDefault();
    void press(button);
  } else if (link !== null && isPlain) {
    event.preventDefault();
    void open(link.href);
  }
});

// A picture that cannot be had becomes its text; errors of pictures do not bubble.
function showAlt(image) {
  const figure = image.closest?.('.prose figure');
  if (!figure) return;
  if (image.alt === '') return figure.remove();
  figure.className = 'no-image';
  figure.textContent = image.alt;
}
document.addEventListener('error', ({ target }) => showAlt(target), true);
for (const image of document.querySelectorAll('.prose img')) {
  if (image.complete && image.naturalWidth === 0) showAlt(image);
}

// The address also changes when an article is opened here: then it is shown already.
window.addEventListener('popstate', () => {
  const wanted = new URLSearchParams(location.search).get('open') ?? undefined;
  if (wanted !== openId()) void open(location.href, false);
});

document.addEventListener('focusin', (event) => {
  const item = event.target.closest?.('li[data-article]');
  if (!item) return;
  here.id = item.dataset.article;
  here.index = items().indexOf(item);
});

// When the article that the reader is at leaves the list, the next one takes its place.
if (listed !== null) {
  showOpen();
  new MutationObserver(() => {
    showOpen();
    const left = items();
    const isGone =
      here.id !== undefined && !left.some(({ dataset }) => dataset.article === here.id);
    const isFree = document.activeElement === document.body || document.activeElement === null;
    if (isGone && isFree) moveTo(left[Math.min(here.index, left.length - 1)]);
  }).observe(listed, { childList: true, subtree: true });
}

/** The text of a file by its byte order mark or by the encoding that it declares. */
function decoded(bytes) {
  const [first, second] = new Uint8Array(bytes);
  const head = new TextDecoder('latin1').decode(bytes.slice(0, 200));
  let label = /encoding=["']([\w-]+)/.exec(head)?.[1] ?? 'utf-8';
  if (first === 0xff && second === 0xfe) label = 'utf-16le';
  if (first === 0xfe && second === 0xff) label = 'utf-16be';
  try {
    return new TextDecoder(label).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

// A file is read here, since a form without script can only send what is pasted.
for (const label of document.querySelectorAll('[data-fills]')) {
  label.hidden = false;
  label.querySelector('input').addEventListener('change', (event) => {
    const [file] = event.target.files;
    const field = document.getElementById(label.dataset.fills);
    void file?.arrayBuffer().then((bytes) => {
      field.value = decoded(bytes);
    });
  });
}

// What was typed is there again until a form was taken: its session may have ended meanwhile. It is
// kept for its user alone, and credentials are not.
const isTaken = document.querySelector('.flash-info') !== null;
const user = document.querySelector('[data-user]')?.dataset.user;
for (const typed of document.querySelectorAll('form.row, form.rule')) {
  const name = `typed ${typed.getAttribute('action')} ${user}`;
  const fields = [...typed.querySelectorAll('input:not([type=hidden]), textarea, select')].filter(
    ({ type, autocomplete }) => !/^(password|file)$/.test(type) && autocomplete !== 'off',
  );
  typed.addEventListener('submit', () => {
    sessionStorage.setItem(name, JSON.stringify(fields.map(({ value }) => value)));
  });
  const values = JSON.parse(sessionStorage.getItem(name) ?? '[]');
  if (!isTaken) for (const [at, value] of values.entries()) fields[at].value = value;
  sessionStorage.removeItem(name);
}

// Pages that were loaded can be read again without a connection.
void navigator.serviceWorker?.register('/reader/offline.js', { scope: '/reader' }).catch(() => {});
