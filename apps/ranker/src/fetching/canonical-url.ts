const urlCharsMax = 4_096;

/** Tracking parameters: they tell where a reader came from, and do not change the content. */
const tracking = new RegExp(
  '^(utm_.*|(fb|g|y|w|tt|d|tw)clid|msclkid|gbraid|wbraid|mc_[ce]id|igsh(id)?|_hs(enc|mi)|mkt_tok|' +
    'at_(medium|campaign|custom.*|link.*|format|ptr_name|bbc_team)|cmpid|s_?cid|ncid|icid|' +
    'ref(_src|_url)?|source|smid|spm|vero_id|oly_(anon|enc)_id|_ga|__twitter_.*|' +
    'guccounter|guce_.*|xtor|wt\\.mc.*|amp|outputtype)$',
  'i',
);
/** Tracking names that some sites use for content: removed only with a known tracking value. */
const ambiguous = /^(ref|source|amp|outputtype)$/i;
const telling =
  /^(|1|true|amp|rss|feed|(face|insta|linked|twit|tele|what|red|you|mast|goo|bing|hack|news).*)$/i;

/** Parses an http(s) address; undefined for anything else, and for one with a password. */
export function webUrl(text: string, base?: string): URL | undefined {
  const trimmed = text.trim();
  if (trimmed.length > urlCharsMax || !URL.canParse(trimmed, base)) return undefined;
  const url = new URL(trimmed, base);
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:';
  return isWeb && url.hostname !== '' && url.username + url.password === '' ? url : undefined;
}

/**
 * The address by which an article is known: without fragment, tracking and AMP, so that all links
 * to it give the same one. Undefined if it is no http(s) address.
 */
export function canonicalUrl(text: string, base?: string): string | undefined {
  const given = webUrl(text, base);
  const url = given && (ampTarget(given) ?? given);
  if (url === undefined) return undefined;
  url.hash = '';
  const kept = url.search.slice(1).split('&').filter(isContent);
  url.search = kept.join('&');
  url.pathname = url.pathname.replace(/(?<=.)(\/amp)+\/?$/i, '').replace(/\.amp(?=\.html$|$)/i, '');
  return url.href;
}

function isContent(parameter: string): boolean {
  const [name = '', value = ''] = parameter.split('=');
  if (parameter === '') return false;
  return !tracking.test(name) || (ambiguous.test(name) && !telling.test(value));
}

/** The original address inside the address of an AMP viewer or cache. */
function ampTarget(url: URL): URL | undefined {
  const isViewer = /(^|\.)google\.[a-z.]+$/.test(url.hostname) && url.pathname.startsWith('/amp/');
  const isCache = url.hostname.endsWith('.cdn.ampproject.org');
  const [, secure, rest] = /^\/(?:amp|[acv])\/(s\/)?(.+\..+)$/.exec(url.pathname) ?? [];
  if ((!isViewer && !isCache) || rest === undefined) return undefined;
  return webUrl(`${secure ? 'https' : 'http'}://${rest}${url.search}`);
}

/** The canonical address that a page claims, if it is of the same site and not its home page. */
export function claimedUrl(claim: string, page: string): string | undefined {
  const claimed = webUrl(claim, page);
  const actual = new URL(page);
  if (claimed === undefined || !isSameSite(claimed.hostname, actual.hostname)) return undefined;
  if (claimed.pathname === '/' && claimed.search === '' && actual.pathname !== '/')
    return undefined;
  return canonicalUrl(claimed.href);
}

/** True if two hosts are of one site. */
export function isSameSite(one: string, other: string): boolean {
  const a = siteOf(one);
  const b = siteOf(other);
  return a === b || a.endsWith(`.${b}`) || b.endsWith(`.${a}`);
}

/** A host without prefixes such as `www.` or `m.`, which name another view of the same site. */
export function siteOf(hostname: string): string {
  return hostname.replace(/^(?:www|m|mobile|amp)\.(?=[^.]+\.)/, '');
}
