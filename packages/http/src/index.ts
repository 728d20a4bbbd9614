export { masked } from './config-mask.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { type OperatorOptions, operator } from './operator.ts';
export {
  type OperatorAccess,
  type OperatorAccessOptions,
  operatorAccess,
} from './operator-access.ts';
export { Panel, type Reading, type Watched } from './panel.ts';
export type { PartKind } from './part-kind.ts';
export type { Plugin } from './plugin-contract.ts';
export {
  type PluginHook,
  PluginHost,
  type PluginHostOptions,
  type PluginSnapshot,
  type PluginState,
} from './plugin-host.ts';
export type { ProcessFigures } from './process-stats.ts';
export { exposition, type MetricFamily, type MetricSample } from './prometheus.ts';
export { requestId, requestIds } from './request-id.ts';
export type { RouteFacts, RouteUse } from './route-meter.ts';
export type { StatsFeedOptions } from './stats-feed.ts';
