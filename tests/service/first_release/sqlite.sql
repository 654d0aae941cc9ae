BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE feature_sets (
	id TEXT NOT NULL, 
	graph_id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	mode TEXT NOT NULL, 
	path TEXT NOT NULL, 
	n_rows BIGINT NOT NULL, 
	n_columns BIGINT NOT NULL, 
	is_sparse BOOLEAN NOT NULL, 
	n_bytes BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	features_version BIGINT, 
	n_new_nodes BIGINT, 
	reason TEXT, 
	"row" BIGINT, 
	value TEXT, 
	created_at TEXT NOT NULL, 
	finished_at TEXT, argument TEXT, 
	CONSTRAINT pk_feature_sets PRIMARY KEY (id), 
	CONSTRAINT ck_feature_sets_mode CHECK (mode IN ('replace', 'add')), 
	CONSTRAINT ck_feature_sets_status CHECK (status IN ('pending', 'committed', 'refused')), 
	CONSTRAINT fk_feature_sets_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE, 
	CONSTRAINT uq_feature_sets_graph_id_position UNIQUE (graph_id, position)
);
INSERT INTO "feature_sets" VALUES('f1','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',1,'replace','/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/feature-sets/f1',3,2,0,48,'refused',NULL,NULL,'must be finite',2,'nan','2026-01-02T03:02:05.006Z','2026-01-02T03:02:05.006Z','x');
CREATE TABLE files (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	graph_id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	source_id TEXT, 
	push_id TEXT, 
	path TEXT NOT NULL, 
	version TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	digest TEXT, 
	status TEXT NOT NULL, 
	reason TEXT, 
	"row" BIGINT, 
	value TEXT, 
	n_rows BIGINT, 
	n_self_loops BIGINT, 
	created_at TEXT NOT NULL, 
	finished_at TEXT, 
	CONSTRAINT ck_files_status CHECK (status IN ('pending', 'committed', 'quarantined', 'duplicate')), 
	CONSTRAINT fk_files_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE, 
	CONSTRAINT fk_files_push_id FOREIGN KEY(push_id) REFERENCES pushes (id) ON DELETE CASCADE, 
	CONSTRAINT fk_files_source_id FOREIGN KEY(source_id) REFERENCES sources (id) ON DELETE CASCADE, 
	CONSTRAINT uq_files_graph_id_path_version UNIQUE (graph_id, path, version), 
	CONSTRAINT uq_files_graph_id_position UNIQUE (graph_id, position)
);
INSERT INTO "files" VALUES(1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',1,'s1',NULL,'/data/inbox/a.parquet','1',500,'blake3:ff','committed',NULL,NULL,NULL,3,1,'2026-01-02T03:02:05.006Z','2026-01-02T03:03:05.006Z');
INSERT INTO "files" VALUES(2,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',2,NULL,'p1','/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p1.parquet','1',500,'blake3:p1','committed',NULL,NULL,NULL,3,1,'2026-01-02T03:02:05.006Z','2026-01-02T03:03:05.006Z');
INSERT INTO "files" VALUES(3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',3,NULL,'p2','/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p2.parquet','1',500,NULL,'pending',NULL,NULL,NULL,NULL,NULL,'2026-01-02T03:02:05.006Z',NULL);
INSERT INTO "files" VALUES(4,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',4,'s1',NULL,'/data/inbox/bad.parquet','1',500,NULL,'quarantined','weight must be positive',7,'-1.0',NULL,NULL,'2026-01-02T03:02:05.006Z','2026-01-02T03:04:05.006Z');
CREATE TABLE graphs (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	node_ids TEXT NOT NULL, 
	epsilon FLOAT NOT NULL, 
	max_edges BIGINT, 
	expected_nodes BIGINT NOT NULL, 
	max_nodes BIGINT NOT NULL, 
	seed BIGINT NOT NULL, 
	keep_raw BOOLEAN NOT NULL, 
	snapshot_every JSON, 
	auto_solve JSON, 
	state TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	deleted_at TEXT, 
	n_nodes BIGINT NOT NULL, 
	edges_seen BIGINT NOT NULL, 
	edges_kept BIGINT NOT NULL, 
	self_loops BIGINT NOT NULL, 
	epsilon_expected FLOAT, 
	snapshot BIGINT, 
	files_seq BIGINT NOT NULL, 
	labels_seq BIGINT NOT NULL, 
	features_version BIGINT NOT NULL, pushed_bytes BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_graphs PRIMARY KEY (id), 
	CONSTRAINT ck_graphs_state CHECK (state IN ('active', 'deleted'))
);
INSERT INTO "graphs" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','friends','string',0.7,NULL,1000,100000,4503599627370497,1,'{"edges": 100, "seconds": null}','{"model": "hfs", "parameters": {"graph_penalty": 1.0}}','active','2026-01-02T03:01:05.006Z',NULL,5,9,4,1,0.25,2,4,3,0,250);
INSERT INTO "graphs" VALUES('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','gone','string',0.7,50,1000,100000,4503599627370497,0,'null','null','deleted','2026-01-02T03:01:05.006Z','2026-01-02T03:09:05.006Z',5,9,4,1,NULL,NULL,0,0,0,0);
CREATE TABLE ingest_points (
	graph_id TEXT NOT NULL, 
	at TEXT NOT NULL, 
	n_nodes BIGINT NOT NULL, 
	edges_seen BIGINT NOT NULL, 
	edges_kept BIGINT NOT NULL, 
	n_records BIGINT NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	CONSTRAINT pk_ingest_points PRIMARY KEY (graph_id, at), 
	CONSTRAINT fk_ingest_points_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE
);
INSERT INTO "ingest_points" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','2026-01-02T03:02:05.006Z',4,9,6,6,4096);
CREATE TABLE job_events (
	job_id TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	at TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	data JSON, 
	CONSTRAINT pk_job_events PRIMARY KEY (job_id, seq), 
	CONSTRAINT fk_job_events_job_id FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO "job_events" VALUES('j1',1,'2026-01-02T03:03:05.006Z','queued','{}');
INSERT INTO "job_events" VALUES('j1',2,'2026-01-02T03:04:05.006Z','succeeded','{"attempt": 1, "error": null}');
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	graph_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	lane TEXT NOT NULL, 
	priority INTEGER NOT NULL, 
	model TEXT, 
	parameters JSON NOT NULL, 
	idempotency_key TEXT, 
	coalesce_key TEXT, 
	status TEXT NOT NULL, 
	phase TEXT, 
	progress FLOAT, 
	cancel_requested BOOLEAN NOT NULL, 
	attempt INTEGER NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	worker_id TEXT, 
	lease_expires_at TEXT, 
	snapshot BIGINT, 
	labels_seq BIGINT, 
	features_version BIGINT, 
	result JSON, 
	error TEXT, 
	created_at TEXT NOT NULL, 
	started_at TEXT, 
	finished_at TEXT, expected_end_at TEXT, 
	CONSTRAINT pk_jobs PRIMARY KEY (id), 
	CONSTRAINT ck_jobs_lane CHECK (lane IN ('fast', 'heavy')), 
	CONSTRAINT ck_jobs_status CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')), 
	CONSTRAINT fk_jobs_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE, 
	CONSTRAINT uq_jobs_graph_id_idempotency_key UNIQUE (graph_id, idempotency_key)
);
INSERT INTO "jobs" VALUES('j1','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','solve','fast',0,'hfs','{"graph_penalty": 1.0}',NULL,NULL,'succeeded','solving',1.0,0,1,3,'host-1',NULL,2,3,0,'{"file": "j1-1.arrow"}',NULL,'2026-01-02T03:03:05.006Z','2026-01-02T03:03:05.006Z','2026-01-02T03:04:05.006Z',NULL);
INSERT INTO "jobs" VALUES('j2','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','solve','fast',0,'hfs','{"graph_penalty": 1.0}',NULL,'["solve"]','queued',NULL,NULL,0,0,3,NULL,NULL,NULL,NULL,NULL,'null',NULL,'2026-01-02T03:03:05.006Z',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES('j3','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','solve','fast',0,'hfs','{"graph_penalty": 1.0}','key-1',NULL,'failed','solving',1.0,0,1,3,'host-1',NULL,2,3,0,'null','no labels','2026-01-02T03:03:05.006Z','2026-01-02T03:03:05.006Z','2026-01-02T03:04:05.006Z',NULL);
CREATE TABLE keys (
	prefix TEXT NOT NULL, 
	name TEXT NOT NULL, 
	secret_sha256 TEXT NOT NULL, 
	scopes JSON NOT NULL, 
	created_at TEXT NOT NULL, 
	revoked_at TEXT, 
	last_used_at TEXT, 
	CONSTRAINT pk_keys PRIMARY KEY (prefix)
);
INSERT INTO "keys" VALUES('abcd1234','laptop','0000000000000000000000000000000000000000000000000000000000000000','["read", "label"]','2026-01-02T03:01:05.006Z',NULL,'2026-01-02T03:08:05.006Z');
CREATE TABLE label_events (
	graph_id TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	node TEXT NOT NULL, 
	label TEXT, 
	created_at TEXT NOT NULL, 
	CONSTRAINT pk_label_events PRIMARY KEY (graph_id, seq), 
	CONSTRAINT fk_label_events_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE
);
INSERT INTO "label_events" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',1,'ann','"x"','2026-01-02T03:02:05.006Z');
INSERT INTO "label_events" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',2,'bob','3','2026-01-02T03:02:05.006Z');
INSERT INTO "label_events" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',3,'ann',NULL,'2026-01-02T03:02:05.006Z');
CREATE TABLE leases (
	name TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	token BIGINT NOT NULL, 
	expires_at TEXT NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (name)
);
INSERT INTO "leases" VALUES('ingest:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','host:1:x',7,'2026-01-02T03:05:05.006Z');
CREATE TABLE pushes (
	id TEXT NOT NULL, 
	graph_id TEXT NOT NULL, 
	idempotency_key TEXT, 
	body_digest TEXT NOT NULL, 
	path TEXT NOT NULL, 
	n_rows BIGINT NOT NULL, 
	n_bytes BIGINT NOT NULL, 
	created_at TEXT NOT NULL, position BIGINT DEFAULT '0' NOT NULL, file_id BIGINT, content BLOB, is_alone BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_pushes PRIMARY KEY (id), 
	CONSTRAINT fk_pushes_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE, 
	CONSTRAINT uq_pushes_graph_id_idempotency_key UNIQUE (graph_id, idempotency_key)
);
INSERT INTO "pushes" VALUES('p1','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','k1','blake3:p1','/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p1.parquet',3,100,'2026-01-02T03:02:05.006Z',2,2,NULL,0);
INSERT INTO "pushes" VALUES('p2','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',NULL,'blake3:p2','/srv/graphs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/pushes/p2.parquet',3,250,'2026-01-02T03:02:05.006Z',3,3,NULL,0);
CREATE TABLE sources (
	id TEXT NOT NULL, 
	graph_id TEXT NOT NULL, 
	url TEXT NOT NULL, 
	follow BOOLEAN NOT NULL, 
	created_at TEXT NOT NULL, 
	removed_at TEXT, listed_at TEXT, error_at TEXT, error TEXT, n_failures BIGINT DEFAULT '0' NOT NULL, confined_to TEXT, 
	CONSTRAINT pk_sources PRIMARY KEY (id), 
	CONSTRAINT fk_sources_graph_id FOREIGN KEY(graph_id) REFERENCES graphs (id) ON DELETE CASCADE, 
	CONSTRAINT uq_sources_graph_id_url UNIQUE (graph_id, url)
);
INSERT INTO "sources" VALUES('s1','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/data/inbox',1,'2026-01-02T03:01:05.006Z',NULL,NULL,NULL,NULL,0,NULL);
INSERT INTO "sources" VALUES('s2','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','s3://bucket/old',0,'2026-01-02T03:01:05.006Z','2026-01-02T03:06:05.006Z',NULL,NULL,NULL,0,NULL);
CREATE TABLE workers (
	id TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	heartbeat_at TEXT NOT NULL, 
	lanes JSON NOT NULL, 
	CONSTRAINT pk_workers PRIMARY KEY (id)
);
INSERT INTO "workers" VALUES('host-1','2026-01-02T03:01:05.006Z','2026-01-02T03:05:05.006Z','["fast", "heavy"]');
CREATE UNIQUE INDEX uq_graphs_active_name ON graphs (name) WHERE state = 'active';
CREATE INDEX ix_jobs_graph_id_created_at ON jobs (graph_id, created_at);
CREATE INDEX ix_jobs_status_lane_priority_created_at ON jobs (status, lane, priority, created_at);
CREATE UNIQUE INDEX uq_jobs_queued_coalesce_key ON jobs (graph_id, coalesce_key) WHERE status = 'queued' AND coalesce_key IS NOT NULL;
CREATE INDEX ix_label_events_graph_id_node_seq ON label_events (graph_id, node, seq);
CREATE INDEX ix_files_graph_id_digest ON files (graph_id, digest);
CREATE INDEX ix_files_graph_id_status_position ON files (graph_id, status, position);
CREATE INDEX ix_files_push_id ON files (push_id);
CREATE INDEX ix_files_source_id ON files (source_id);
CREATE INDEX ix_pushes_graph_id_file_id_position ON pushes (graph_id, file_id, position);
CREATE INDEX ix_feature_sets_graph_id_status_position ON feature_sets (graph_id, status, position);
CREATE INDEX ix_jobs_graph_id_kind_status_snapshot_labels_seq_finished_at ON jobs (graph_id, kind, status, snapshot, labels_seq, finished_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('files',4);
COMMIT;
