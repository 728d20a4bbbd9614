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

// The calculator of the guide to sizing, which is a picture without script.
const calculator = document.getElementById('calculator');
if (calculator !== null) {
  const fields = [
    ['Calls a second at the busiest hour', 64],
    ['Time of one call, in ms', 130],
    ['Time that a caller has, in ms', 2000],
  ];
  const inputs = fields.map(([label, value]) => {
    const input = Object.assign(document.createElement('input'), { type: 'number', min: 0, value });
    input.className = 'input';
    const named = document.createElement('label');
    named.append(label, input);
    calculator.append(named);
    return input;
  });
  const output = calculator.appendChild(document.createElement('output'));
  const show = () => {
    const [rate, serviceMs, deadlineMs] = inputs.map(({ value }) => Number(value));
    const busy = (rate * serviceMs) / 1000;
    const limit = Math.max(1, Math.ceil(busy * 1.3));
    const waitMs = Math.max(0, deadlineMs - serviceMs);
    const queueMax = Math.floor((limit * waitMs) / Math.max(1, serviceMs));
    output.textContent =
      serviceMs < deadlineMs
        ? `${busy.toFixed(1)} permits are busy: limit ${limit}, queueMax ${queueMax}, deadlineMs ${deadlineMs}`
        : 'A deadline below the time of one call cannot be kept.';
  };
  calculator.addEventListener('input', show);
  show();
}
