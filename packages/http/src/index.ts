export { addressKey } from './address-key.ts';
export { type AdmissionOptions, admission } from './admission.ts';
export { type AssetsOptions, assets } from './assets.ts';
export { type BlockedUsersOptions, blockedUsers } from './blocked.ts';
export { type BodyGuardOptions, bodyGuard } from './body-guard.ts';
export type { Channel, ChannelListener } from './channel.ts';
export { masked } from './config-mask.ts';
export { type CsrfOptions, csrf } from './csrf.ts';
export {
  type Domain,
  type DomainsOptions,
  type DomainsStats,
  domains,
  type RouteStats,
} from './domain.ts';
export { type Download, download } from './download.ts';
export { type ErrorAnswersOptions, errorAnswers } from './error-answer.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { type Failure, failureOf } from './failure.ts';
export { failurePage, wantsPage } from './failure-page.ts';
export { fileDownload, pathInside } from './files.ts';
export { Html, type HtmlValue, html, keyed, Raw, raw, safeUrl } from './html.ts';
export type { BroadcastResult } from './hub-broadcast.ts';
export type { FanOutStats } from './hub-fan-out.ts';
export type { SlowPolicy, WebSocketHubOptions } from './hub-options.ts';
export type { HubSocket, SocketEnd, SocketHandlers } from './hub-socket.ts';
export { type IdempotencyOptions, idempotency } from './idempotency.ts';
export type { IdempotencyStats } from './idempotency-ledger.ts';
export { type LivePageOptions, live } from './live.ts';
export type { Observable } from './live-view.ts';
export type { LiveOptions, LiveStats } from './live-views.ts';
export { methods } from './methods.ts';
export { type OperatorOptions, operator } from './operator.ts';
export {
  type OperatorAccess,
  type OperatorAccessOptions,
  operatorAccess,
} from './operator-access.ts';
export { type PageOptions, page, pages } from './page.ts';
export { Panel, type Reading, type Watched } from './panel.ts';
export type { PartKind } from './part-kind.ts';
export { type ListStep, liveText, type PatchPath, type PatchStep, patch } from './patch.ts';
export type { Piece, PieceSource } from './piece-stream.ts';
export type { Plugin } from './plugin-contract.ts';
export {
  type PluginHook,
  PluginHost,
  type PluginHostOptions,
  type PluginSnapshot,
  type PluginState,
} from './plugin-host.ts';
export { type PrimaryOnlyOptions, primaryOnly } from './primary-only.ts';
export type { ProcessFigures } from './process-stats.ts';
export { exposition, type MetricFamily, type MetricSample } from './prometheus.ts';
export { type RateGuardOptions, rateGuard } from './rate-guard.ts';
export type { RateKeyPart, UserOf } from './rate-key.ts';
export {
  type RateClaim,
  type RateDecision,
  RateLimiter,
  type RateLimiterOptions,
} from './rate-limiter.ts';
export type { RateVerdict } from './rate-memory.ts';
export { type NamedRule, namedRule, type RateMode, type RateRule } from './rate-rule.ts';
export { type RecentError, RecentErrors, type RecentErrorsOptions } from './recent-errors.ts';
export { requestId, requestIds } from './request-id.ts';
export type { RequestPermit } from './request-permit.ts';
export type { RouteFacts, RouteUse } from './route-meter.ts';
export { buildValidator } from './schema.ts';
export { type SecurityHeadersOptions, securityHeaders } from './security-headers.ts';
export { createServer, HttpServer } from './server.ts';
export type { ServerOptions } from './server-options.ts';
export { type SessionOptions, sessionOf, sessions } from './session.ts';
export { type FlashMessage, Session } from './session-data.ts';
export type { SigningKeys } from './signer.ts';
export { type SocketMessage, socketFrame } from './socket-frame.ts';
export {
  type Frozen,
  State,
  type StateChange,
  type StateDocumentOptions,
  type StateStats,
  type StateStoreOptions,
} from './state.ts';
export type { StatsFeedOptions } from './stats-feed.ts';
export { type Stopper, type StoppingOptions, stopping } from './stopping.ts';
export { StoreChannel, type StoreChannelOptions, type StoreChannelStats } from './store-channel.ts';
export { refuseBody } from './unread-body.ts';
export { type Received, type ReceiveOptions, receive } from './upload.ts';
export {
  type FormFile,
  type ReceivedForm,
  type ReceiveFormOptions,
  receiveForm,
  uploads,
} from './uploads.ts';
export { type SocketRoute, WebSocketHub, type WebSocketHubStats } from './web-socket-hub.ts';
