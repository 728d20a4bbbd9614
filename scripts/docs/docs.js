// Search of the documentation: all words must be on the page; those in titles count most.
const up = document.currentScript.dataset.up;
const input = document.getElementById('search');
const found = document.getElementById('found');
const article = document.querySelector('article');

function score([, title, , text], words) {
  const head = title.toLowerCase();
  const body = text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const count = body.split(word).length - 1;
    if (count === 0 && !head.includes(word)) return 0;
    sum += Math.min(count, 20) + (head.includes(word) ? 100 : 0);
  }
  return sum;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 60);
  return text.slice(at, at + 180).replaceAll(/\s+/g, ' ');
}

input.addEventListener('input', () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const isAsked = words.length > 0;
  found.hidden = !isAsked;
  article.hidden = isAsked;
  found.replaceChildren();
  if (!isAsked) return;
  const ranked = globalThis.docsPages
    .map((page) => ({ page, points: score(page, words) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, 30);
  const head = document.createElement('h1');
  head.textContent = ranked.length === 0 ? 'Nothing found' : `${ranked.length} pages`;
  found.append(head);
  for (const { page } of ranked) {
    const [path, title, group, text] = page;
    const link = document.createElement('a');
    link.href = `${up}/${path}`;
    link.textContent = title;
    const about = document.createElement('p');
    about.className = 'quiet small';
    about.textContent = `${group}: ${excerpt(text, words[0])}`;
    found.append(link, about);
  }
});

document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  input.focus();
});
