CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.feature_sets (
    id text NOT NULL,
    graph_id text NOT NULL,
    "position" bigint NOT NULL,
    mode text NOT NULL,
    path text NOT NULL,
    n_rows bigint NOT NULL,
    n_columns bigint NOT NULL,
    is_sparse boolean NOT NULL,
    n_bytes bigint NOT NULL,
    status text NOT NULL,
    features_version bigint,
    n_new_nodes bigint,
    reason text,
    "row" bigint,
    value text,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    argument text,
    CONSTRAINT ck_feature_sets_mode CHECK ((mode = ANY (ARRAY['replace'::text, 'add'::text]))),
    CONSTRAINT ck_feature_sets_status CHECK ((status = ANY (ARRAY['pending'::text, 'committed'::text, 'refused'::text])))
);
CREATE TABLE public.files (
    id bigint NOT NULL,
    graph_id text NOT NULL,
    "position" bigint NOT NULL,
    source_id text,
    push_id text,
    path text NOT NULL,
    version text NOT NULL,
    size bigint NOT NULL,
    digest text,
    status text NOT NULL,
    reason text,
    "row" bigint,
    value text,
    n_rows bigint,
    n_self_loops bigint,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT ck_files_status CHECK ((status = ANY (ARRAY['pending'::text, 'committed'::text, 'quarantined'::text, 'duplicate'::text])))
);
CREATE SEQUENCE public.files_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.files_id_seq OWNED BY public.files.id;
CREATE TABLE public.graphs (
    id text NOT NULL,
    name text NOT NULL,
    node_ids text NOT NULL,
    epsilon double precision NOT NULL,
    max_edges bigint,
    expected_nodes bigint NOT NULL,
    max_nodes bigint NOT NULL,
    seed bigint NOT NULL,
    keep_raw boolean NOT NULL,
    snapshot_every json,
    auto_solve json,
    state text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    n_nodes bigint NOT NULL,
    edges_seen bigint NOT NULL,
    edges_kept bigint NOT NULL,
    self_loops bigint NOT NULL,
    epsilon_expected double precision,
    snapshot bigint,
    files_seq bigint NOT NULL,
    labels_seq bigint NOT NULL,
    features_version bigint NOT NULL,
    pushed_bytes bigint DEFAULT '0'::bigint NOT NULL,
    CONSTRAINT ck_graphs_state CHECK ((state = ANY (ARRAY['active'::text, 'deleted'::text])))
);
CREATE TABLE public.ingest_points (
    graph_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    n_nodes bigint NOT NULL,
    edges_seen bigint NOT NULL,
    edges_kept bigint NOT NULL,
    n_records bigint NOT NULL,
    memory_bytes bigint NOT NULL
);
CREATE TABLE public.job_events (
    job_id text NOT NULL,
    seq bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    data json
);
CREATE TABLE public.jobs (
    id text NOT NULL,
    graph_id text NOT NULL,
    kind text NOT NULL,
    lane text NOT NULL,
    priority integer NOT NULL,
    model text,
    parameters json NOT NULL,
    idempotency_key text,
    coalesce_key text,
    status text NOT NULL,
    phase text,
    progress double precision,
    cancel_requested boolean NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    worker_id text,
    lease_expires_at timestamp with time zone,
    snapshot bigint,
    labels_seq bigint,
    features_version bigint,
    result json,
    error text,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    expected_end_at timestamp with time zone,
    CONSTRAINT ck_jobs_lane CHECK ((lane = ANY (ARRAY['fast'::text, 'heavy'::text]))),
    CONSTRAINT ck_jobs_status CHECK ((status = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text])))
);
CREATE TABLE public.keys (
    prefix text NOT NULL,
    name text NOT NULL,
    secret_sha256 text NOT NULL,
    scopes json NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone
);
CREATE TABLE public.label_events (
    graph_id text NOT NULL,
    seq bigint NOT NULL,
    node text NOT NULL,
    label text,
    created_at timestamp with time zone NOT NULL
);
CREATE TABLE public.leases (
    name text NOT NULL,
    holder text NOT NULL,
    token bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.pushes (
    id text NOT NULL,
    graph_id text NOT NULL,
    idempotency_key text,
    body_digest text NOT NULL,
    path text NOT NULL,
    n_rows bigint NOT NULL,
    n_bytes bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    "position" bigint DEFAULT '0'::bigint NOT NULL,
    file_id bigint,
    content bytea,
    is_alone boolean DEFAULT false NOT NULL
);
CREATE TABLE public.sources (
    id text NOT NULL,
    graph_id text NOT NULL,
    url text NOT NULL,
    follow boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    removed_at timestamp with time zone,
    listed_at timestamp with time zone,
    error_at timestamp with time zone,
    error text,
    n_failures bigint DEFAULT '0'::bigint NOT NULL,
    confined_to text
);
CREATE TABLE public.workers (
    id text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    lanes json NOT NULL
);
ALTER TABLE ONLY public.files ALTER COLUMN id SET DEFAULT nextval('public.files_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0007');
INSERT INTO public.feature_sets VALUES ('f1', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 1, 'replace', '/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/feature-sets/f1', 3, 2, false, 48, 'refused', NULL, NULL, 'must be finite', 2, 'nan', '2026-01-02 03:02:05.006+00', '2026-01-02 03:02:05.006+00', 'x');
INSERT INTO public.files VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 1, 's1', NULL, '/data/inbox/a.parquet', '1', 500, 'blake3:ff', 'committed', NULL, NULL, NULL, 3, 1, '2026-01-02 03:02:05.006+00', '2026-01-02 03:03:05.006+00');
INSERT INTO public.files VALUES (2, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 2, NULL, 'p1', '/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p1.parquet', '1', 500, 'blake3:p1', 'committed', NULL, NULL, NULL, 3, 1, '2026-01-02 03:02:05.006+00', '2026-01-02 03:03:05.006+00');
INSERT INTO public.files VALUES (3, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 3, NULL, 'p2', '/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p2.parquet', '1', 500, NULL, 'pending', NULL, NULL, NULL, NULL, NULL, '2026-01-02 03:02:05.006+00', NULL);
INSERT INTO public.files VALUES (4, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 4, 's1', NULL, '/data/inbox/bad.parquet', '1', 500, NULL, 'quarantined', 'weight must be positive', 7, '-1.0', NULL, NULL, '2026-01-02 03:02:05.006+00', '2026-01-02 03:04:05.006+00');
INSERT INTO public.graphs VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'friends', 'string', 0.7, NULL, 1000, 100000, 4503599627370497, true, '{"edges": 100, "seconds": null}', '{"model": "hfs", "parameters": {"graph_penalty": 1.0}}', 'active', '2026-01-02 03:01:05.006+00', NULL, 5, 9, 4, 1, 0.25, 2, 4, 3, 0, 250);
INSERT INTO public.graphs VALUES ('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'gone', 'string', 0.7, 50, 1000, 100000, 4503599627370497, false, 'null', 'null', 'deleted', '2026-01-02 03:01:05.006+00', '2026-01-02 03:09:05.006+00', 5, 9, 4, 1, NULL, NULL, 0, 0, 0, 0);
INSERT INTO public.ingest_points VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '2026-01-02 03:02:05.006+00', 4, 9, 6, 6, 4096);
INSERT INTO public.job_events VALUES ('j1', 1, '2026-01-02 03:03:05.006+00', 'queued', '{}');
INSERT INTO public.job_events VALUES ('j1', 2, '2026-01-02 03:04:05.006+00', 'succeeded', '{"attempt": 1, "error": null}');
INSERT INTO public.jobs VALUES ('j1', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'solve', 'fast', 0, 'hfs', '{"graph_penalty": 1.0}', NULL, NULL, 'succeeded', 'solving', 1, false, 1, 3, 'host-1', NULL, 2, 3, 0, '{"file": "j1-1.arrow"}', NULL, '2026-01-02 03:03:05.006+00', '2026-01-02 03:03:05.006+00', '2026-01-02 03:04:05.006+00', NULL);
INSERT INTO public.jobs VALUES ('j2', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'solve', 'fast', 0, 'hfs', '{"graph_penalty": 1.0}', NULL, '["solve"]', 'queued', NULL, NULL, false, 0, 3, NULL, NULL, NULL, NULL, NULL, 'null', NULL, '2026-01-02 03:03:05.006+00', NULL, NULL, NULL);
INSERT INTO public.jobs VALUES ('j3', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'solve', 'fast', 0, 'hfs', '{"graph_penalty": 1.0}', 'key-1', NULL, 'failed', 'solving', 1, false, 1, 3, 'host-1', NULL, 2, 3, 0, 'null', 'no labels', '2026-01-02 03:03:05.006+00', '2026-01-02 03:03:05.006+00', '2026-01-02 03:04:05.006+00', NULL);
INSERT INTO public.keys VALUES ('abcd1234', 'laptop', '0000000000000000000000000000000000000000000000000000000000000000', '["read", "label"]', '2026-01-02 03:01:05.006+00', NULL, '2026-01-02 03:08:05.006+00');
INSERT INTO public.label_events VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 1, 'ann', '"x"', '2026-01-02 03:02:05.006+00');
INSERT INTO public.label_events VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 2, 'bob', '3', '2026-01-02 03:02:05.006+00');
INSERT INTO public.label_events VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 3, 'ann', NULL, '2026-01-02 03:02:05.006+00');
INSERT INTO public.leases VALUES ('ingest:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'host:1:x', 7, '2026-01-02 03:05:05.006+00');
INSERT INTO public.pushes VALUES ('p1', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'k1', 'blake3:p1', '/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p1.parquet', 3, 100, '2026-01-02 03:02:05.006+00', 2, 2, NULL, false);
INSERT INTO public.pushes VALUES ('p2', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', NULL, 'blake3:p2', '/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p2.parquet', 3, 250, '2026-01-02 03:02:05.006+00', 3, 3, NULL, false);
INSERT INTO public.sources VALUES ('s1', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '/data/inbox', true, '2026-01-02 03:01:05.006+00', NULL, NULL, NULL, NULL, 0, NULL);
INSERT INTO public.sources VALUES ('s2', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 's3://bucket/old', false, '2026-01-02 03:01:05.006+00', '2026-01-02 03:06:05.006+00', NULL, NULL, NULL, 0, NULL);
INSERT INTO public.workers VALUES ('host-1', '2026-01-02 03:01:05.006+00', '2026-01-02 03:05:05.006+00', '["fast", "heavy"]');
SELECT pg_catalog.setval('public.files_id_seq', 4, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.feature_sets
    ADD CONSTRAINT pk_feature_sets PRIMARY KEY (id);
ALTER TABLE ONLY public.files
    ADD CONSTRAINT pk_files PRIMARY KEY (id);
ALTER TABLE ONLY public.graphs
    ADD CONSTRAINT pk_graphs PRIMARY KEY (id);
ALTER TABLE ONLY public.ingest_points
    ADD CONSTRAINT pk_ingest_points PRIMARY KEY (graph_id, at);
ALTER TABLE ONLY public.job_events
    ADD CONSTRAINT pk_job_events PRIMARY KEY (job_id, seq);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT pk_jobs PRIMARY KEY (id);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT pk_keys PRIMARY KEY (prefix);
ALTER TABLE ONLY public.label_events
    ADD CONSTRAINT pk_label_events PRIMARY KEY (graph_id, seq);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT pk_leases PRIMARY KEY (name);
ALTER TABLE ONLY public.pushes
    ADD CONSTRAINT pk_pushes PRIMARY KEY (id);
ALTER TABLE ONLY public.sources
    ADD CONSTRAINT pk_sources PRIMARY KEY (id);
ALTER TABLE ONLY public.workers
    ADD CONSTRAINT pk_workers PRIMARY KEY (id);
ALTER TABLE ONLY public.feature_sets
    ADD CONSTRAINT uq_feature_sets_graph_id_position UNIQUE (graph_id, "position");
ALTER TABLE ONLY public.files
    ADD CONSTRAINT uq_files_graph_id_path_version UNIQUE (graph_id, path, version);
ALTER TABLE ONLY public.files
    ADD CONSTRAINT uq_files_graph_id_position UNIQUE (graph_id, "position");
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT uq_jobs_graph_id_idempotency_key UNIQUE (graph_id, idempotency_key);
ALTER TABLE ONLY public.pushes
    ADD CONSTRAINT uq_pushes_graph_id_idempotency_key UNIQUE (graph_id, idempotency_key);
ALTER TABLE ONLY public.sources
    ADD CONSTRAINT uq_sources_graph_id_url UNIQUE (graph_id, url);
CREATE INDEX ix_feature_sets_graph_id_status_position ON public.feature_sets USING btree (graph_id, status, "position");
CREATE INDEX ix_files_graph_id_digest ON public.files USING btree (graph_id, digest);
CREATE INDEX ix_files_graph_id_status_position ON public.files USING btree (graph_id, status, "position");
CREATE INDEX ix_files_push_id ON public.files USING btree (push_id);
CREATE INDEX ix_files_source_id ON public.files USING btree (source_id);
CREATE INDEX ix_jobs_graph_id_created_at ON public.jobs USING btree (graph_id, created_at);
CREATE INDEX ix_jobs_graph_id_kind_status_snapshot_labels_seq_finished_at ON public.jobs USING btree (graph_id, kind, status, snapshot, labels_seq, finished_at);
CREATE INDEX ix_jobs_status_lane_priority_created_at ON public.jobs USING btree (status, lane, priority, created_at);
CREATE INDEX ix_label_events_graph_id_node_seq ON public.label_events USING btree (graph_id, node, seq);
CREATE INDEX ix_pushes_graph_id_file_id_position ON public.pushes USING btree (graph_id, file_id, "position");
CREATE UNIQUE INDEX uq_graphs_active_name ON public.graphs USING btree (name) WHERE (state = 'active'::text);
CREATE UNIQUE INDEX uq_jobs_queued_coalesce_key ON public.jobs USING btree (graph_id, coalesce_key) WHERE ((status = 'queued'::text) AND (coalesce_key IS NOT NULL));
ALTER TABLE ONLY public.feature_sets
    ADD CONSTRAINT fk_feature_sets_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.files
    ADD CONSTRAINT fk_files_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.files
    ADD CONSTRAINT fk_files_push_id FOREIGN KEY (push_id) REFERENCES public.pushes(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.files
    ADD CONSTRAINT fk_files_source_id FOREIGN KEY (source_id) REFERENCES public.sources(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.ingest_points
    ADD CONSTRAINT fk_ingest_points_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.job_events
    ADD CONSTRAINT fk_job_events_job_id FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT fk_jobs_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.label_events
    ADD CONSTRAINT fk_label_events_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.pushes
    ADD CONSTRAINT fk_pushes_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sources
    ADD CONSTRAINT fk_sources_graph_id FOREIGN KEY (graph_id) REFERENCES public.graphs(id) ON DELETE CASCADE;
