import { sentence, story } from './fetch-scene.ts';

/** A page in the manner of some kind of site, and what a reader would say its story is. */
export interface SitePage {
  readonly page: string;
  readonly title: string;
  readonly paragraphs: readonly string[];
}

const link = (n: number) => `<a href="/section/${n}">Another headline of today, number ${n}</a>`;
const links = (count: number) =>
  Array.from({ length: count }, (_, n) => `<li>${link(n)}</li>`).join('');
/** Something that somebody else wrote: never part of the story. */
const chatter = (n: number) =>
  `<div class="comment"><p>I disagree with ${n} and told my neighbour so twice.</p></div>`;

function newspaper(): SitePage {
  const { text } = story(10);
  const paragraphs = text.map((one, n) =>
    n === 4
      ? `<p>${one}</p><div class="ad-slot" id="google_ad_4">Advertisement</div>`
      : `<p>${one}</p>`,
  );
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8">
    <title>Cranes return to the harbour | The Daily Ledger</title>
    <meta property="og:title" content="Cranes return to the harbour">
    <meta property="og:site_name" content="The Daily Ledger"></head><body>
    <header class="masthead"><a href="/">The Daily Ledger</a>
    <nav class="main-nav"><ul>${links(12)}</ul></nav></header>
    <div id="cookie-banner" class="cookie consent modal"><p>We and our partners use cookies to store
    and access data on your device. Accept all or manage your choices at any time.</p>
    <button>Accept</button></div>
    <main><article class="story"><h1>Cranes return to the harbour</h1>
    <p class="byline">By <a rel="author" href="/by/ann">Ann Author</a></p>
    <ul class="share-tools"><li><a href="#">Share</a></li><li><a href="#">Email</a></li></ul>
    <div class="story-body">${paragraphs.join('\n')}</div></article>
    <aside class="related sidebar"><h2>Most read</h2><ol>${links(10)}</ol></aside>
    <section id="comments" class="comments"><h3>Comments (214)</h3>
    ${[1, 2, 3, 4, 5].map(chatter).join('')}</section>
    </main><footer class="site-footer"><p>Copyright The Daily Ledger. All rights reserved, terms
    apply, and so does our policy on privacy.</p><ul>${links(15)}</ul></footer></body></html>`;
  return { page, title: 'Cranes return to the harbour', paragraphs: text };
}

function weblog(): SitePage {
  const { text } = story(7);
  const page = `<html><head><title>Notes on tides — a small blog</title></head>
    <body class="home blog">
    <div id="wrapper"><div id="sidebar" class="widget-area"><div class="widget"><h3>Archives</h3>
    <ul>${links(24)}</ul></div>
    <div class="widget newsletter"><p>Subscribe to my newsletter and never
    miss a post again!</p><form><input><button>Subscribe</button></form></div></div>
    <div id="content"><div class="post hentry"><h2 class="entry-title">Notes on tides</h2>
    <div class="entry-content"><blockquote><p>${text[0]}</p></blockquote>
    ${text
      .slice(1)
      .map((one) => `<p>${one}</p>`)
      .join('')}
    <pre><code>const tide = moon + sun;</code></pre></div>
    <div class="post-meta">Filed under <a href="/c/sea" rel="category tag">Sea</a></div></div>
    <div class="navigation"><a href="/older">Older posts</a></div></div></div></body></html>`;
  return { page, title: 'Notes on tides', paragraphs: [...text, 'const tide = moon + sun;'] };
}

function divSoup(): SitePage {
  const { text } = story(8);
  const marked = text
    .map((one) => `<p class="css-9xz">${one}</p>`)
    .join('<div class="css-ad"></div>');
  const box = (inner: string, name: string) =>
    `<div class="${name}"><div><div>${inner}</div></div></div>`;
  const page = `<html><head><title>Ledger found in warehouse</title></head><body>
    ${box(links(30), 'css-1ab2')}${box('<h1>Ledger found in warehouse</h1>', 'css-77')}
    ${box(marked, 'css-5c')}${box(`<ul>${links(20)}</ul>`, 'css-rec')}
    ${box('<span>Terms</span><span>Help</span>', 'css-foot')}
    </body></html>`;
  return { page, title: 'Ledger found in warehouse', paragraphs: text };
}

function tableLayout(): SitePage {
  const { text } = story(6);
  const page = `<HTML><HEAD><TITLE>Old ferry timetable explained</TITLE></HEAD><BODY BGCOLOR=white>
    <TABLE WIDTH=100%><TR><TD WIDTH=150 VALIGN=top><FONT SIZE=1>${links(15)}</FONT></TD><TD>
    <FONT FACE=Arial>${text.map((one) => `<P>${one}`).join('\n')}</FONT></TD></TR></TABLE>
    <CENTER><FONT SIZE=1>Best viewed in any browser</FONT></CENTER></BODY></HTML>`;
  return { page, title: 'Old ferry timetable explained', paragraphs: text };
}

function liveReport(): SitePage {
  const { text } = story(9);
  const entries = text.map((one, n) => {
    return `<div class="live-entry"><time datetime="2024-05-06T0${n}:00:00Z">0${n}:00</time>
      <h3>Update ${n}</h3><p>${one}</p>
      <figure><img src="/p${n}.jpg"><figcaption>Photo: ${n}</figcaption></figure></div>`;
  });
  const page = `<html><head><title>Storm at sea: live</title></head><body>
    <nav><ul>${links(8)}</ul></nav>
    <main><h1>Storm at sea: live</h1>${entries.join('')}</main>
    <div class="recommended">${links(12)}</div></body></html>`;
  return { page, title: 'Storm at sea: live', paragraphs: text };
}

function forum(): SitePage {
  const { text } = story(5);
  const page = `<html><head><title>How do signals work? - Harbour Answers</title></head><body>
    <div class="topbar"><a href="/">Harbour Answers</a><form><input name=q></form></div>
    <div id="question"><h1>How do signals work?</h1><div class="post-text">
    ${text.map((one) => `<p>${one}</p>`).join('')}</div>
    <div class="post-menu"><a>share</a><a>edit</a></div></div>
    <div id="hot-questions" class="sidebar"><h4>Hot questions</h4><ul>${links(25)}</ul></div>
    <footer><ul>${links(20)}</ul></footer></body></html>`;
  return { page, title: 'How do signals work?', paragraphs: text };
}

function entities(): SitePage {
  const words = (n: number) => `“${sentence(n)}” — naïve & <brave>`;
  const marked = (n: number) =>
    `&ldquo;${sentence(n)}&rdquo;&nbsp;&mdash; na&iuml;ve &amp; &lt;brave&gt;`;
  const numbers = [1, 2, 3, 4, 5, 6, 7, 8];
  const page = `<html><head><title>Entities &amp; friends</title></head><body><article>
    ${numbers.map((n) => `<p>${marked(n)}</p>`).join('')}</article>
    <noscript><img src="/pixel"></noscript></body></html>`;
  return { page, title: 'Entities & friends', paragraphs: numbers.map(words) };
}

/** Boxes, captions and invitations between the paragraphs, in the names of another publisher. */
function magazine(): SitePage {
  const { text } = story(12);
  const boxes = [
    '<p class="pic-caption">Boats in the bay last spring, before the storm came in.</p>',
    '<p><em>Read also:</em> <a href="/a">Nine harbours that nobody visits any more</a></p>',
    `<div class="box-newsletter"><h3>The morning letter</h3><p>Five stories a day, before breakfast.
     No spam, ever.</p><form><input><button>Sign me up</button></form></div>`,
    '<p><span>Photo: A. Weber/Reuters</span></p>',
    `<section class="related-stories"><h4>Related</h4><ul>${links(4)}</ul></section>`,
    '<p>* * *</p>',
    '<p><a href="/s">More on the harbour and its people in our special</a></p>',
  ];
  const paragraphs = text.map((one, n) => `<p>${one}</p>${boxes[n] ?? ''}`);
  const page = `<html lang="en"><head><title>The last pilot - Coast Magazine</title></head><body>
    <nav>${links(9)}</nav><article><h1>The last pilot</h1><p>By Maria Weber</p><p>3 June 2024</p>
    ${paragraphs.join('\n')}<p>Tags: <a href="/t/1">sea</a>, <a href="/t/2">work</a></p>
    <p>12 comments</p></article><footer>${links(9)}</footer></body></html>`;
  return { page, title: 'The last pilot', paragraphs: text };
}

/** The same ideas in German, with other names for everything. */
function zeitung(): SitePage {
  const saetze = (n: number) =>
    `Der Lotse Nummer ${n} wartete am Abend auf der Brücke, denn das Wasser stieg weiter, ` +
    `und niemand im Hafen von Feld ${n} wusste, wie lange der Wind noch halten würde.`;
  const text = Array.from({ length: 10 }, (_, n) => saetze(n + 3));
  const boxes = [
    '<figure><figcaption>Der Hafen am Morgen nach der Flut, aus der Luft.</figcaption></figure>',
    '<p class="artikel-hinweis"><a href="/b">Lesen Sie hier, was die Stadt nun plant</a></p>',
    '<p>Abonnieren Sie unseren Newsletter und verpassen Sie nichts.</p>',
    '<div class="social-bar"><span>Teilen</span><span>Merken</span></div>',
  ];
  const paragraphs = text.map((one, n) => `<p>${one}</p>${boxes[n] ?? ''}`);
  const page = `<html lang="de"><head><title>Warten auf die Flut</title></head><body>
    <div class="kopf"><ul>${links(11)}</ul></div><div class="artikel"><h1>Warten auf die Flut</h1>
    <div class="autor">Von Jan Hinrichs</div>${paragraphs.join('')}
    <p>Mehr zum Thema: <a href="/c">Deiche im Norden</a></p><p>dpa/jh</p></div>
    <div class="fuss">${links(14)}</div></body></html>`;
  return { page, title: 'Warten auf die Flut', paragraphs: text };
}

/** One page of each kind. */
export const sitePages: Readonly<Record<string, () => SitePage>> = {
  'a newspaper with advertisements and comments': newspaper,
  'a weblog with widgets': weblog,
  'a page of nothing but boxes': divSoup,
  'a page laid out by tables': tableLayout,
  'a live report': liveReport,
  'a page of questions': forum,
  'a page full of entities': entities,
  'a magazine with boxes between its paragraphs': magazine,
  'a German newspaper': zeitung,
};
