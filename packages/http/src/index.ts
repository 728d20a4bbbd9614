export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { Html, type HtmlValue, html, keyed, Raw, raw, safeUrl } from './html.ts';
export { type LivePageOptions, live } from './live.ts';
export type { Watched } from './live-view.ts';
export type { LiveOptions, LiveStats } from './live-views.ts';
export { type FlashMessage, type PageOptions, page, pages } from './page.ts';
export { type ListStep, liveText, type PatchPath, type PatchStep, patch } from './patch.ts';
export {
  type Frozen,
  State,
  type StateChange,
  type StateDocumentOptions,
  type StateStats,
  type StateStoreOptions,
} from './state.ts';
