// The calculator answers while its fields change; without script, when its button is pressed.
const form = document.querySelector('form[data-answer]');
let asked = 0;

form?.addEventListener('input', () => void answerAgain());

async function answerAgain() {
  asked += 1;
  const own = asked;
  const query = new URLSearchParams(new FormData(form));
  const headers = { 'hx-request': 'true' };
  const answer = await fetch(`${form.getAttribute('action')}?${query}`, { headers });
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const found = page.getElementById(form.dataset.answer);
  // An answer that was overtaken is of no use any more.
  if (own !== asked || found === null) return;
  document.getElementById(form.dataset.answer).replaceWith(found);
  history.replaceState(null, '', `?${query}`);
}
