export { addressKey } from './address-key.ts';
export type { Channel, ChannelListener } from './channel.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export type { BroadcastResult } from './hub-broadcast.ts';
export type { FanOutStats } from './hub-fan-out.ts';
export type { SlowPolicy, WebSocketHubOptions } from './hub-options.ts';
export type { HubSocket, SocketEnd, SocketHandlers } from './hub-socket.ts';
export { type SocketMessage, socketFrame } from './socket-frame.ts';
export { type SocketRoute, WebSocketHub, type WebSocketHubStats } from './web-socket-hub.ts';
