export { addressKey } from './base/address-key.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './base/errors.ts';
export { buildValidator } from './base/schema.ts';
export { formFields, forms } from './body/parsers.ts';
export { failures } from './failure/answer.ts';
export { failureOf, wantsPage } from './failure/failure.ts';
export { type RecentError, RecentErrors } from './failure/recent-errors.ts';
export { type Download, download } from './file/download.ts';
export { type AssetsOptions, assets, fileDownload, pathInside } from './file/files.ts';
export type { Piece, PieceSource } from './file/pieces.ts';
export { type Received, type ReceiveOptions, receive, uploads } from './file/upload.ts';
export {
  type IdempotencyOptions,
  idempotency,
  type KeptAnswer,
} from './idempotency/idempotency.ts';
export type { OperatorAction } from './operator/actions.ts';
export {
  askOperator,
  type OperatorAnswer,
  type OperatorCall,
  type OperatorPlace,
} from './operator/client.ts';
export { operatorSocket } from './operator/listen.ts';
export {
  Operator,
  type OperatorOptions,
  type OperatorRemote,
  type OperatorSources,
  type ShownConfig,
} from './operator/operator.ts';
export type { ProcessFigures } from './operator/process.ts';
export { type Domain, type RouteStats, Routes } from './operator/routes.ts';
export { Html, type HtmlValue, html, keyed, Raw, raw, safeUrl } from './page/html.ts';
export { type LiveOptions, type LivePageOptions, type LiveStats, live } from './page/live.ts';
export type { Observable } from './page/live-view.ts';
export { type PageOptions, page, pages } from './page/page.ts';
export { type ListStep, liveText, type PatchPath, type PatchStep, patch } from './page/patch.ts';
export { type Frozen, State, type StateChange } from './page/state.ts';
export { type RateGuardOptions, rateGuard } from './rate/guard.ts';
export type { RateKeyPart, UserOf } from './rate/key.ts';
export {
  type RateClaim,
  type RateDecision,
  RateLimiter,
  type RateLimiterOptions,
  type RateVerdict,
} from './rate/limiter.ts';
export { type NamedRule, namedRule, type RateRule } from './rate/rule.ts';
export { type AdmissionOptions, admission } from './request/admission.ts';
export type { RequestPermit } from './request/request-permit.ts';
export { refuseBody } from './request/unread-body.ts';
export { createServer, HttpServer } from './server.ts';
export type { ServerOptions } from './server-options.ts';
export type { SigningKeys } from './session/cookie.ts';
export { type CsrfOptions, csrf } from './session/csrf.ts';
export { type PrimaryOnlyOptions, primaryOnly } from './session/primary-only.ts';
export {
  type FlashMessage,
  Session,
  type SessionOptions,
  sessionOf,
  sessions,
} from './session/session.ts';
export {
  type BroadcastResult,
  type RelayStats,
  type SocketMessage,
  socketFrame,
} from './socket/broadcast.ts';
export type { Channel, ChannelListener } from './socket/channel.ts';
export { type SocketRoute, WebSocketHub, type WebSocketHubStats } from './socket/hub.ts';
export type { SlowPolicy, WebSocketHubOptions } from './socket/limits.ts';
export type { HubSocket, SocketEnd, SocketHandlers } from './socket/socket.ts';
export {
  StoreChannel,
  type StoreChannelOptions,
  type StoreChannelStats,
} from './socket/store-channel.ts';
