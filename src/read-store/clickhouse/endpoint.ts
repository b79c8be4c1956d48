/** The composition root finds it beside the adapter; both adapters share it through the port's folder. */
export type { ClickHouseEndpoint } from '../endpoint.js';
